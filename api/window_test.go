package api

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/await"
)

// serveHTTP2 serves a handler over TLS until the test ends.
func serveHTTP2(t *testing.T, h http.Handler) (address string) {
	t.Helper()
	lent := httptest.NewTLSServer(nil)
	t.Cleanup(lent.Close)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, l, h, ServeOptions{TLS: &tls.Config{Certificates: lent.TLS.Certificates}}) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

// windowless is an HTTP/2 client that reads no byte of a response body.
type windowless struct {
	*tls.Conn
	next uint32
}

func dialWindowless(t *testing.T, address string) *windowless {
	t.Helper()
	conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	go func() { _, _ = io.Copy(io.Discard, conn) }() // ends when conn is closed
	c := &windowless{conn, 1}
	const initialWindowSize = 4
	if _, err := io.WriteString(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"+frame(4, 0, 0, []byte{0, initialWindowSize, 0, 0, 0, 0})); err != nil {
		t.Fatal(err)
	}
	return c
}

func frame(kind, flags byte, stream uint32, text []byte) string {
	head := []byte{0, byte(len(text) >> 8), byte(len(text)), kind, flags}
	return string(append(binary.BigEndian.AppendUint32(head, stream), text...))
}

// ask sends a request. The error means that the connection was closed.
func (c *windowless) ask(path, token string) error {
	var block []byte
	field := func(name, value string) {
		block = append(block, 0, byte(len(name)))
		block = append(append(append(block, name...), byte(len(value))), value...)
	}
	field(":method", "GET")
	field(":scheme", "https")
	field(":authority", "localhost")
	field(":path", path)
	if token != "" {
		field("authorization", "Bearer "+token)
	}
	const endOfStreamAndHeaders = 5
	_, err := io.WriteString(c.Conn, frame(1, endOfStreamAndHeaders, c.next, block))
	c.next += 2
	return err
}

// writer counts responses that are not read yet.
type writer struct {
	bytes     int
	now, most atomic.Int64
	all       atomic.Int64
}

func (h *writer) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	n := h.now.Add(1)
	defer h.now.Add(-1)
	h.all.Add(1)
	for most := h.most.Load(); n > most && !h.most.CompareAndSwap(most, n); most = h.most.Load() {
	}
	_, _ = w.Write(make([]byte, h.bytes))
}

// TestAnonymousRequestsAreBounded: clients without a token that read no responses hold a bounded number of requests,
// for seconds, and others are served.
func TestAnonymousRequestsAreBounded(t *testing.T) {
	page := &writer{bytes: 20_000}
	keys := newTokenSet()
	address := serveHTTP2(t, newBackend().api(Options{Access: keys, Page: page}))
	for range 12 {
		c := dialWindowless(t, address)
		for range maxStreamsOfConnection {
			if err := c.ask("/static/page.css", ""); err != nil {
				t.Fatal(err)
			}
		}
	}
	await.Until(t, "they are many", func() bool { return page.all.Load() >= maxAnonymous })
	began := time.Now()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}, Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	for target, want := range map[string]int{"/healthz": 200, "/static/page.css": 200, "/api/v1/jobs": 401} {
		res, err := client.Get("https://" + address + target)
		if err != nil {
			t.Errorf("%s: %v", target, err)
			continue
		}
		_, _ = io.Copy(io.Discard, res.Body)
		res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("%s: %s", target, res.Status)
		}
	}
	for page.now.Load() > maxAnonymous { // those of connections that were closed end at once
		if time.Since(began) > anonymousTime/2 {
			t.Fatalf("%d answers are under way, %d may be", page.now.Load(), maxAnonymous)
		}
		time.Sleep(time.Millisecond)
	}
	await.Until(t, "they are given up", func() bool { return page.now.Load() == 0 })
	if took := time.Since(began); took > 3*anonymousTime {
		t.Errorf("they were held for %v", took)
	}
}

// TestRefusalsEnd: a response to a client without a token ends within seconds if it is not read.
func TestRefusalsEnd(t *testing.T) {
	t.Parallel()
	s := newAPI(newBackend().backend(), Options{Access: newTokenSet()})
	address := serveHTTP2(t, s.handler(nil))
	c := dialWindowless(t, address)
	for _, target := range []string{"/healthz", "/readyz", "/api/v1/jobs", "/nothing", "/api/v1/jobs/report/run"} {
		if err := c.ask(target, ""); err != nil {
			t.Fatal(err)
		}
	}
	under := func() int {
		s.anonymous.mu.Lock()
		defer s.anonymous.mu.Unlock()
		return int(s.anonymous.all)
	}
	await.Until(t, "they are under way", func() bool { return under() == 5 })
	began := time.Now()
	await.Until(t, "they are given up", func() bool { return under() == 0 })
	if took := time.Since(began); took > 3*anonymousTime {
		t.Errorf("they were held for %v", took)
	}
}

// TestUnsentBodies: no response waits for an unread body, and its connection ends soon.
func TestUnsentBodies(t *testing.T) {
	t.Parallel()
	keys := newTokenSet()
	address := serveOn(t, loopback(t), keys, ServeOptions{})
	for _, c := range []struct{ request, token, want string }{
		{"GET /api/v1/jobs", keys.secrets[Viewer], "200"},
		{"HEAD /api/v1/jobs", keys.secrets[Viewer], "200"},
		{"GET /healthz", "", "200"},
		{"GET /api/v1/jobs", "", "401"},
		{"POST /api/v1/jobs/report/run", "", "401"},
		{"POST /api/v1/jobs/report/run", keys.secrets[Viewer], "403"},
		{"POST /api/v1/jobs", keys.secrets[Viewer], "405"},
		{"POST /api/v1/pools/mail/tasks", keys.secrets[Operator], "415"},
	} {
		for _, body := range []string{"Content-Length: 100000\r\n\r\nx", "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n"} {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				conn := dial(t, address)
				_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
				authorization := ""
				if c.token != "" {
					authorization = "Authorization: Bearer " + c.token + "\r\n"
				}
				if _, err := fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n%s%s", c.request, authorization, body); err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				text, err := io.ReadAll(conn)
				if err != nil && !strings.Contains(err.Error(), "reset") || !strings.HasPrefix(string(text), "HTTP/1.1 "+c.want) {
					t.Errorf("%s %.20q: %.40q, %v after %v", c.request, body, text, err, time.Since(began))
				}
			})
		}
	}
}

// TestScrapesAreNotHeld: clients that do not read the metrics do not block other scrapes, and count as readers.
func TestScrapesAreNotHeld(t *testing.T) {
	metrics := &writer{bytes: 100_000}
	keys := newTokenSet()
	s := newAPI(newBackend().backend(), Options{Access: keys, Metrics: metrics})
	address := serveHTTP2(t, s.handler(nil))
	c := dialWindowless(t, address)
	for range maxReadsEach + 4 {
		if err := c.ask("/metrics", keys.secrets[Viewer]); err != nil {
			t.Fatal(err)
		}
	}
	await.Until(t, "all are gathered", func() bool { return metrics.all.Load() == maxReadsEach && metrics.now.Load() == 0 })
	s.reads.mu.Lock()
	taken := s.reads.taken
	s.reads.mu.Unlock()
	if most := metrics.most.Load(); most > maxScrapesEach || taken != maxReadsEach {
		t.Errorf("%d were gathered at once, and %d are held", most, taken)
	}
}
