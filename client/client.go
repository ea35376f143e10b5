// Package client calls the API of a replica. Any replica will do: they share one store.
//
// Every method but Await and Follow is one request. It is repeated while the replica is starting, for up to a minute, or busy, for up to 20
// s: then nothing was done. A refusal is an [*Error], which also matches jobs.ErrNotFound, ErrConflict, ErrInvalid,
// ErrNoHandler and ErrUnavailable; a replica that cannot be reached is [ErrUnreachable]. After any other error of a
// write, and after ErrUnavailable, the outcome is unknown: with an idempotency key an enqueue can be repeated.
package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/plainjson"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// ErrUnreachable: no connection was made, so nothing was done.
var ErrUnreachable = errors.New("cannot be reached")

// Error is a refusal.
type Error struct {
	Status int // of HTTP
	wire.Problem
}

func (e *Error) Error() string {
	if e.Field != "" {
		return e.Field + ": " + e.Message
	}
	return e.Message
}

// Is matches errors of package jobs by status and code.
func (e *Error) Is(target error) bool {
	switch target {
	case jobs.ErrNotFound: // not whatever another server, or another path, has no page for
		return e.Status == http.StatusNotFound && e.Code == "not_found"
	case jobs.ErrConflict:
		return e.Status == http.StatusConflict
	case jobs.ErrInvalid:
		return e.Status == http.StatusBadRequest || e.Status == http.StatusUnprocessableEntity || e.Code == "too_large"
	case jobs.ErrNoHandler:
		return e.Code == "no_handler"
	case jobs.ErrUnavailable: // or what stands between cannot reach it
		return e.Status == http.StatusServiceUnavailable || e.Status == http.StatusBadGateway || e.Status == http.StatusGatewayTimeout
	}
	return false
}

// Options of a client. The zero value works.
type Options struct {
	Token      string       // sent as bearer token
	TLS        *tls.Config  // of https; default: the authorities that the system trusts
	HTTPClient *http.Client // default: one with TLS that gives up after 60 s and follows no redirects

	// Away is called when Follow, FollowOutput, FollowOrder, Await or AwaitOrder have got no answer, or one that may pass, once until there is an answer again: with the error of the
	// first try, and for how long they go on trying. It must be safe for concurrent use; nil: they are silent.
	Away func(err error, left time.Duration)
}

// Client is safe for concurrent use.
type Client struct {
	base  *url.URL
	token string
	http  *http.Client
	away  func(err error, left time.Duration)
}

// New returns a client of the replica at base, such as "http://127.0.0.1:8080". It sends nothing.
func New(base string, o Options) (*Client, error) {
	u, err := url.Parse(base)
	switch {
	case err != nil:
		if parse, ok := errors.AsType[*url.Error](err); ok {
			err = parse.Err // without the whole address, which may have a password in it
		}
		return nil, fmt.Errorf("client: the address cannot be read: %w; write it as in http://127.0.0.1:8080", err)
	case u.User != nil, strings.Contains(base, "@"):
		return nil, errors.New("client: the address has a user or password, which no replica uses; set a token instead")
	case u.RawQuery != "", u.Fragment != "":
		return nil, errors.New("client: the address has a query; write it as in http://127.0.0.1:8080")
	case u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "":
		return nil, fmt.Errorf("client: %q is not a URL such as http://127.0.0.1:8080", base)
	}
	if o.HTTPClient == nil {
		transport := http.DefaultTransport
		if o.TLS != nil {
			own := http.DefaultTransport.(*http.Transport).Clone()
			own.TLSClientConfig = o.TLS
			transport = own
		}
		o.HTTPClient = &http.Client{
			Transport:     transport,
			Timeout:       time.Minute,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	u.Path, u.RawPath = strings.TrimSuffix(u.Path, "/"), ""
	return &Client{base: u, token: o.Token, http: o.HTTPClient, away: o.Away}, nil
}

// maxAnswer bounds the bytes read of a response.
const maxAnswer = 256 << 20

func get[T any](ctx context.Context, c *Client, query url.Values, path ...string) (T, error) {
	return call[T](ctx, c, http.MethodGet, path, query, nil)
}

func post[T any](ctx context.Context, c *Client, body any, path ...string) (T, error) {
	return call[T](ctx, c, http.MethodPost, path, nil, body)
}

// call sends a request to a path below /api/v1, and decodes the response.
func call[T any](ctx context.Context, c *Client, method string, path []string, query url.Values, body any) (answer T, err error) {
	res, err := c.send(ctx, method, path, query, body)
	if err != nil {
		return answer, err
	}
	defer res.Body.Close()
	return answer, c.decode(res, &answer)
}

func (c *Client) decode(res *http.Response, into any) error {
	if err := json.NewDecoder(io.LimitReader(res.Body, maxAnswer)).Decode(into); err != nil {
		return fmt.Errorf("client: the response of %s cannot be read: %w", c.base, err)
	}
	return nil
}

// send returns a response of a path below /api/v1 that is no refusal; the caller closes its body.
//
//  1. send the request
//  2. if the replica refuses it as starting or busy, wait as long as Retry-After says
//  3. repeat, unless the patience for this refusal would be over by then
func (c *Client) send(ctx context.Context, method string, path []string, query url.Values, body any) (*http.Response, error) {
	for began := time.Now(); ; {
		res, err := c.roundTrip(ctx, method, append([]string{"api", "v1"}, path...), query, body)
		if err != nil {
			return nil, err
		}
		if res.StatusCode >= 200 && res.StatusCode <= 299 {
			return res, nil
		}
		seconds, _ := strconv.Atoi(res.Header.Get("Retry-After"))
		refused, wait := refusal(res), time.Duration(min(max(seconds, 1), 30))*time.Second
		res.Body.Close()
		if time.Since(began)+wait > refused.patience() {
			return nil, refused
		}
		select {
		case <-ctx.Done():
			return nil, refused
		case <-time.After(wait):
		}
	}
}

// roundTrip returns any response. Each element of path is one segment.
func (c *Client) roundTrip(ctx context.Context, method string, path []string, query url.Values, body any) (*http.Response, error) {
	escaped := make([]string, len(path))
	for i, segment := range path {
		if segment == "" || segment == "." || segment == ".." {
			return nil, fmt.Errorf("client: %w: %q is not a name", jobs.ErrInvalid, segment)
		}
		escaped[i] = url.PathEscape(segment)
	}
	var text io.Reader
	if body != nil {
		encoded, err := plainjson.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("client: %w: %w", jobs.ErrInvalid, err)
		}
		text = bytes.NewReader(encoded)
	}
	address := c.base.String() + "/" + strings.Join(escaped, "/")
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, address, text)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	req.Header.Set("Accept", "application/json")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, c.failed(err)
	}
	return res, nil
}

// failed distinguishes errors before a connection was made from later ones.
func (c *Client) failed(err error) error {
	if at, ok := errors.AsType[*url.Error](err); ok {
		err = at.Err // without the whole address, which may be long
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return fmt.Errorf("client: %s %w: %w", c.base, ErrUnreachable, err)
	}
	return fmt.Errorf("client: %s: %w", c.base, err)
}

// refusal is the error of a response. One not of the API is from another server or a proxy.
func refusal(res *http.Response) *Error {
	e := &Error{res.StatusCode, wire.Problem{Code: "unknown", Message: "the response was " + res.Status}}
	if res.StatusCode < 500 {
		e.Message += ", which is none of the API: is this the address of a replica, with the path that the API is mounted at?"
	}
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if kind != "application/json" {
		return e
	}
	var body wire.Refusal
	if err := json.NewDecoder(io.LimitReader(res.Body, 1<<20)).Decode(&body); err == nil && body.Error.Code != "" {
		e.Problem = body.Error
	}
	return e
}

const (
	maxStarting = time.Minute      // of retries while the replica is starting
	maxBusy     = 20 * time.Second // and while it is busy
)

// patience bounds the retries after e; 0: none. When a replica has not loaded its definitions, or has too many requests,
// nothing was done, so even a write without an idempotency key can be repeated. After any other 503 the outcome is
// unknown.
func (e *Error) patience() time.Duration {
	switch {
	case e.Status == http.StatusServiceUnavailable && e.Code == "starting":
		return maxStarting
	case e.Status == http.StatusTooManyRequests && e.Code == "busy":
		return maxBusy
	}
	return 0
}
