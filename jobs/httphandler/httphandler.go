// Package httphandler sends a request as a job's handler.
//
// The body is the task's payload, unless the [Request] has one of its own; the headers Lockstep-Job and its
// siblings, Idempotency-Key and Traceparent identify the task. The attempt succeeds if the whole answer, or its
// first 64 KiB, came in time and its status is among those expected. The first 64 KiB of the answer's body are
// the attempt's output; the rest is not read, and a line at the end of the output says so. If the whole answer has at most 64 KiB and its
// Content-Type is JSON (application/json, application/problem+json and others with +json), it is the [jobs.Task.SetResult] as well, without
// what is removed from the output, whatever its status. Nothing is reported while the request is under way.
//
// The query of the URL, the values of the request's headers, and the path if it is secret, are not shown. If
// the server repeats them, in its reason phrase or in its answer, they are removed, also values and parts of
// the path by themselves from six characters on, in any case, and with the escapes of URLs, HTML and JSON.
// Values of headers about the format, as Accept and Content-Type, stay. Redirects are not followed: a 3xx
// status is a failure that names the scheme and host of its target. Proxies of the environment are not used.
// Forbidden addresses (see [New]) are refused when the name has been resolved, at each connection.
//
// Bytes behind the end of an answer, on a connection that is kept, are quoted by net/http in the standard
// logger of the process (package log). This package cannot change that: a program whose servers may repeat
// secrets discards it.
//
// A request is sent once. If a connection breaks after something was written, the attempt fails and the job's
// retries decide; only GET, HEAD, OPTIONS may be sent again by the transport.
package httphandler

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/abort"
	"github.com/lockstep-scheduler/lockstep/internal/accepted"
	"github.com/lockstep-scheduler/lockstep/internal/identity"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

const (
	// DefaultTimeout is how long a request may take, answer included.
	DefaultTimeout = 30 * time.Second
	// MaxOutput is how many bytes of the answer's body are kept.
	MaxOutput = 64 << 10
)

// Request says what to send. Only URL is required.
type Request struct {
	Method       string // default POST
	URL          string // http or https
	Headers      map[string]string
	Body         string        // default: the task's payload, as application/json; GET and HEAD send none of it
	ExpectStatus []int         // default: every 2xx, of which 202 does not end the attempt, see Run
	Timeout      time.Duration // default DefaultTimeout
	SecretPath   bool          // the path of the URL is not shown, as its query
}

// Handler sends requests. It may run any number of tasks at once; all handlers share one pool of
// connections.
type Handler struct {
	request Request
	url     *url.URL
	header  http.Header
	hidden  hidden
}

var _ interface {
	jobs.Handler
	jobs.Described
	jobs.Identified
	jobs.Coded
} = (*Handler)(nil)

// Codes are those of [jobs.Coded]: statuses.
func (h *Handler) Codes() (low, high, timeout int) {
	return 100, 599, http.StatusGatewayTimeout
}

// Run sends the request. A status that is not expected is a [*jobs.StatusError], with the first line of the answer, 200 bytes of it, if that is plain text or
// JSON, which becomes one line, and does not repeat the status. So is a request without an answer; with 429 or 503 and a Retry-After of at
// most a day it is a [jobs.RetryAfter]. After a stop the error wraps the cause of ctx. If no descriptor is left
// for a connection, nothing is sent, and the error is [abort.ErrNoRoom].
//
// The status 202 without ExpectStatus says that the server goes on with the work. In a replica the attempt then lasts until the server
// says how it ended, by the API, under the fencing token of the request, or until ctx is done.
func (h *Handler) Run(ctx context.Context, t jobs.Task, out io.Writer) error {
	limited, cancel := context.WithTimeoutCause(ctx, h.request.Timeout, errTimeout)
	defer cancel()
	err := h.send(limited, t, out)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errAccepted):
		cancel()
		return h.await(ctx)
	case errors.Is(err, errStatus): // an answer is one, however late it is by now
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", h, context.Cause(ctx))
	case errors.Is(context.Cause(limited), errTimeout):
		return fmt.Errorf("%s: %w", h, &jobs.StatusError{
			Status: http.StatusGatewayTimeout, NoAnswer: true, Text: fmt.Sprintf("no complete answer within %v", h.request.Timeout),
		})
	}
	return fmt.Errorf("%s: %w", h, retold{err, h.hidden.text(err.Error())})
}

var (
	errTimeout = errors.New("timeout of the request")
	errStatus  = errors.New("unexpected status")
	// errAccepted: the server goes on with the work, and says later how it ended.
	errAccepted = errors.New("accepted")
)

// EndsElsewhere reports whether an attempt may last until another process says how it ended.
func (h *Handler) EndsElsewhere() bool { return len(h.request.ExpectStatus) == 0 }

// await waits until the server has said how the work ended.
func (h *Handler) await(ctx context.Context) error {
	wait, _ := accepted.From(ctx)
	err := wait(ctx)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", h, err)
	}
	return nil
}

func (h *Handler) send(ctx context.Context, t jobs.Task, out io.Writer) error {
	request, err := h.prepare(ctx, t)
	if err != nil {
		return err
	}
	var sent atomic.Bool
	trace := &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }}
	response, err := transport.RoundTrip(request.WithContext(httptrace.WithClientTrace(ctx, trace)))
	if err != nil && sent.Load() && errors.Is(err, abort.ErrNoRoom) {
		return unanswered{errors.New(err.Error())} // a request that was sent once has been started
	}
	if err != nil {
		return unanswered{err}
	}
	defer response.Body.Close()
	body := &answered{out: out}
	if err := h.hidden.copy(body, response.Body); err != nil {
		return fmt.Errorf("reading the answer (%s): %w", response.Status, unanswered{err})
	}
	if _, waits := accepted.From(ctx); waits && response.StatusCode == http.StatusAccepted && h.EndsElsewhere() {
		return errAccepted
	}
	if err := setResult(t, response, body); err != nil {
		return err
	}
	if h.expects(response.StatusCode) {
		return nil
	}
	return h.unexpected(response, body.line(response))
}

// prepare makes the request of one attempt.
func (h *Handler) prepare(ctx context.Context, t jobs.Task) (*http.Request, error) {
	body, contentType := []byte(h.request.Body), "text/plain; charset=utf-8"
	if len(body) == 0 && h.request.Method != http.MethodGet && h.request.Method != http.MethodHead {
		body, contentType = t.Payload, "application/json"
	}
	request, err := http.NewRequestWithContext(ctx, h.request.Method, h.url.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header = h.header.Clone()
	request.Host = h.header.Get("Host")
	if len(body) > 0 && request.Header.Get("Content-Type") == "" {
		request.Header.Set("Content-Type", contentType)
	}
	for _, v := range identity.Of(t) {
		if v.Value != "" {
			request.Header[spelled(v.Header)] = []string{v.Value}
		}
	}
	return request, nil
}

// spelled is the key of a header in the map. The transport sends a request again by itself if it finds one of
// these two keys in that spelling; here each sending is an attempt that must be counted. Names of headers are
// the same in lower case.
func spelled(name string) string {
	switch name = http.CanonicalHeaderKey(name); name {
	case "Idempotency-Key", "X-Idempotency-Key":
		return strings.ToLower(name)
	}
	return name
}

func (h *Handler) expects(status int) bool {
	if len(h.request.ExpectStatus) == 0 {
		return status >= 200 && status < 300
	}
	return slices.Contains(h.request.ExpectStatus, status)
}

// unexpected is the failure by a status; said is a line of the answer's body.
func (h *Handler) unexpected(r *http.Response, said string) error {
	target := ""
	if location := r.Header.Get("Location"); r.StatusCode >= 300 && r.StatusCode < 400 && location != "" {
		target = fmt.Sprintf(" to %s; redirects are not followed, ask the server with curl -i and write the new address", h.target(location))
	}
	status := fmt.Sprintf("%.80s", h.hidden.text(r.Status))
	text := fmt.Sprintf("%v %s%s", errStatus, status, target)
	if said != "" && !strings.HasSuffix(strings.ToLower(status), strings.ToLower(said)) { // many repeat their status
		text += ": " + said
	}
	var err error = unexpected{&jobs.StatusError{Status: r.StatusCode, Text: text}}
	if r.StatusCode == http.StatusTooManyRequests || r.StatusCode == http.StatusServiceUnavailable {
		if wait, ok := retryAfter(r.Header.Get("Retry-After"), time.Now()); ok {
			return jobs.RetryAfter(wait, err)
		}
	}
	return err
}

// target is the target of a redirect, without what may be secret: servers repeat the path of the request.
func (h *Handler) target(location string) string {
	u, err := h.url.Parse(location)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return "what is no address of HTTP"
	case u.Scheme == h.url.Scheme && u.Host == h.url.Host:
		return "another path of the same server"
	}
	return fmt.Sprintf("%.200q", u.Scheme+"://"+u.Host)
}

// String describes the request, without what may be secret.
func (h *Handler) String() string {
	shown := *h.url
	shown.RawQuery, shown.Fragment = "", ""
	if h.request.SecretPath && strings.Trim(shown.Path, "/") != "" {
		shown.Path, shown.RawPath = "", ""
		return h.request.Method + " " + strings.ToValidUTF8(shown.String(), "�") + "/…"
	}
	return h.request.Method + " " + strings.ToValidUTF8(shown.String(), "�")
}
