package api

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
)

// start serves h on a port of its own until the test ends, or stop is called.
func start(t *testing.T, srv *http.Server) (address string, stop func() error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, l, srv) }()
	stop = func() error {
		cancel()
		err := <-ended
		ended <- err
		return err
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String(), stop
}

func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// TestSlowClients: a client that sends slowly, or too large a header, is disconnected, and nothing is done.
func TestSlowClients(t *testing.T) {
	t.Parallel()
	b := newBackend()
	srv := newServer(b.api(Options{}))
	if srv.ReadHeaderTimeout != 5*time.Second || srv.ReadTimeout == 0 || srv.WriteTimeout == 0 || srv.IdleTimeout == 0 || srv.MaxHeaderBytes != 8<<10 {
		t.Fatalf("timeouts: %+v", srv)
	}
	srv.ReadHeaderTimeout, srv.ReadTimeout = 200*time.Millisecond, 2*time.Second
	address, stop := start(t, srv)

	tests := map[string]struct{ send, want string }{
		"header":      {"POST /api/v1/jobs/report/run HTTP/1.1\r\nHost: localhost\r\nX-", ""},
		"body":        {"POST /api/v1/jobs/report/run HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{", "HTTP/1.1 400 "},
		"chunks":      {"POST /api/v1/pools/mail/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n", "HTTP/1.1 400 "},
		"broken":      {"POST /api/v1/pools/mail/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "HTTP/1.1 400 "},
		"long header": {"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Long: " + strings.Repeat("x", 32<<10) + "\r\n\r\n", "HTTP/1.1 431 "},
		"no host":     {"GET /healthz HTTP/1.1\r\n\r\n", "HTTP/1.1 400 "},
		"absolute":    {"POST http://evil.example/api/v1/jobs/report/run HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP/1.1 403 "},
		"said large":  {"POST /api/v1/pools/mail/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1073741824\r\n\r\n[", "HTTP/1.1 413 "},
		"endless": {"POST /api/v1/pools/mail/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n" +
			"900000\r\n" + strings.Repeat(" ", 9<<20), "HTTP/1.1 413 "},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			conn := dial(t, address)
			go func() { _, _ = io.WriteString(conn, test.send) }() // ends when conn is closed
			answer := bufio.NewReader(conn)
			got, err := answer.ReadString('\n')
			if errors.Is(err, os.ErrDeadlineExceeded) || !strings.HasPrefix(got, test.want) {
				t.Errorf("got %q, %v, want %q", got, err, test.want)
			}
			if name == "body" || name == "chunks" {
				if rest, _ := io.ReadAll(answer); !strings.Contains(string(rest), "in time") {
					t.Errorf("the message: %s", rest)
				}
			}
		})
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if len(b.changes) > 0 {
		t.Errorf("changes: %v", b.changes)
	}
}

// TestArrivedAt: the connection's own address is a valid Host, others are not.
func TestArrivedAt(t *testing.T) {
	b := newBackend()
	h := b.api(Options{})
	at := &net.TCPAddr{IP: net.ParseIP("192.168.7.7"), Port: 8080}
	local := func(r *http.Request) {
		*r = *r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, net.Addr(at)))
	}
	if w := ask(t, h, "GET", "/healthz", "", host("192.168.7.7:8080"), local); w.Code != http.StatusOK {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := ask(t, h, "GET", "/healthz", "", host("192.168.7.8:8080"), local); w.Code != http.StatusForbidden {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestServeFinishes: a request under way at the end gets its response.
func TestServeFinishes(t *testing.T) {
	entered, release := make(chan bool), make(chan bool)
	address, stop := start(t, newServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(entered)
		<-release
		fmt.Fprint(w, "done")
	})))
	answer := make(chan string, 1)
	go func() {
		res, err := http.Get("http://" + address)
		if err != nil {
			answer <- err.Error()
			return
		}
		defer res.Body.Close()
		body, _ := io.ReadAll(res.Body)
		answer <- string(body)
	}()
	<-entered
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	for { // until the door is closed
		conn, err := net.Dial("tcp", address)
		if err != nil {
			break
		}
		conn.Close()
	}
	close(release)
	if got := <-answer; got != "done" {
		t.Error(got)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// TestIncompleteBackend: an incomplete API reports it in responses, in the log, and from Serve.
func TestIncompleteBackend(t *testing.T) {
	type noStore struct{ Store }
	const want = "api: New: Backend.Store is nil"
	for _, parts := range []Backend{{}, {Store: (*noStore)(nil)}, {Store: ledger.Sides{}}} {
		var log bytes.Buffer
		h := New(parts, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		for _, path := range []string{"/api/v1/jobs", "/readyz", "/healthz", "/nothing"} {
			if w := ask(t, h, "GET", path, ""); w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), want) {
				t.Errorf("%s: %d %s, want %s", path, w.Code, w.Body, want)
			}
		}
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log says %s", &log)
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		if err := Serve(t.Context(), l, h, ServeOptions{}); err == nil || err.Error() != want {
			t.Errorf("it serves: %v", err)
		}
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("the listener is left open: %v", err)
		}
		h.Flush(t.Context())
	}
}

func TestServeFails(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if err := Serve(t.Context(), l, http.NotFoundHandler(), ServeOptions{}); err == nil || !strings.Contains(err.Error(), l.Addr().String()) {
		t.Errorf("on a closed listener: %v", err)
	}
}
