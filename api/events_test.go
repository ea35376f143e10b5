package api

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

// stream is a client's side of /events.
type stream struct {
	t     *testing.T
	lines *bufio.Scanner
}

func listen(t *testing.T, address string) *stream {
	t.Helper()
	conn := dial(t, address)
	if _, err := io.WriteString(conn, "GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "text/event-stream; charset=utf-8" || res.Header.Get("Cache-Control") != "no-store" {
		t.Fatalf("%s %v", res.Status, res.Header)
	}
	s := &stream{t, bufio.NewScanner(res.Body)}
	s.lines.Buffer(nil, 1<<20)
	return s
}

// next waits for an overview; false at the end of the stream.
func (s *stream) next() (view ledger.Overview, ok bool) {
	s.t.Helper()
	for s.lines.Scan() {
		if data, ok := strings.CutPrefix(s.lines.Text(), "data: "); ok {
			if err := json.Unmarshal([]byte(data), &view); err != nil {
				s.t.Fatal(err)
			}
			return view, true
		}
	}
	if err := s.lines.Err(); errors.Is(err, context.DeadlineExceeded) {
		s.t.Error(err)
	}
	return view, false
}

// TestEvents: each of many streams gets the present state at once and every change; the store is read once for all, and
// streams end with the server.
func TestEvents(t *testing.T) {
	b := newBackend()
	address, stop := start(t, newServer(b.api(Options{})))
	var all []*stream
	for range 20 {
		all = append(all, listen(t, address))
	}
	for _, s := range all {
		view, ok := s.next()
		if !ok || view.Replica != "r1" || !view.Ready || len(view.Recent) != 1 || view.Recent[0].Job != "backup" || len(view.Replicas) != 3 || len(view.Pools) != 2 || view.Error != "" {
			t.Fatalf("%v %+v", ok, view)
		}
	}
	b.mu.Lock()
	first := b.looks
	b.triggers = nil
	b.mu.Unlock()
	for _, s := range all {
		if view, ok := s.next(); !ok || len(view.Recent) != 0 {
			t.Errorf("after a change: %v %+v", ok, view)
		}
	}
	b.mu.Lock()
	looks := b.looks
	b.err = errors.Join(jobs.ErrUnavailable, errors.New("connection refused"))
	b.mu.Unlock()
	if first > 3 || looks > first+3 {
		t.Errorf("the store was asked %d times, then %d", first, looks)
	}
	for _, s := range all {
		if view, ok := s.next(); !ok || !strings.Contains(view.Error, "connection refused") || view.Jobs != 3 || len(view.Pools) != 2 {
			t.Errorf("store away: %v %+v", ok, view)
		}
	}
	began := time.Now()
	if err := stop(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took >= shutdownTimeout {
		t.Errorf("the server waited %v for streams", took)
	}
	for _, s := range all {
		if _, ok := s.next(); ok {
			t.Error("a stream outlived the server")
		}
	}
}

// TestEventsOutliveTimeouts: the timeouts that bound ordinary requests do not end a stream.
func TestEventsOutliveTimeouts(t *testing.T) {
	t.Parallel()
	b := newBackend()
	srv := newServer(b.api(Options{}))
	srv.ReadTimeout, srv.WriteTimeout = 500*time.Millisecond, 500*time.Millisecond
	address, _ := start(t, srv)
	s := listen(t, address)
	for i := range 3 {
		if view, ok := s.next(); !ok || view.Jobs != 3+i {
			t.Fatalf("event %d: %v %+v", i, ok, view)
		}
		b.mu.Lock()
		b.jobs = append(b.jobs, ledger.JobStatus{Job: wire.Job{Name: "more", Retired: true}})
		b.mu.Unlock()
	}
}

// TestEventsAreBounded: beyond the bound a stream is refused until another one ends.
func TestEventsAreBounded(t *testing.T) {
	address, _ := start(t, newServer(newBackend().api(Options{})))
	var conns []net.Conn
	for range maxStreamsEach {
		conn := dial(t, address)
		if _, err := io.WriteString(conn, "GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
	}
	for _, conn := range conns {
		if _, err := bufio.NewReader(conn).ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	ask := func() *http.Response {
		res, err := http.Get("http://" + address + "/api/v1/events")
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		return res
	}
	if res := ask(); res.StatusCode != http.StatusTooManyRequests || res.Header.Get("Retry-After") == "" {
		t.Errorf("one too many: %s %v", res.Status, res.Header)
	}
	conns[0].Close()
	for deadline := time.Now().Add(20 * time.Second); ask().StatusCode != http.StatusOK; {
		if time.Now().After(deadline) {
			t.Fatal("a place that was left is not free")
		}
	}
}

// TestEventsWithoutDeadlines: without write deadlines there is one event.
func TestEventsWithoutDeadlines(t *testing.T) {
	h := newBackend().api(Options{})
	if w := ask(t, h, "GET", "/api/v1/events", ""); strings.Count(w.Body.String(), "event: overview\ndata: {") != 1 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := ask(t, h, "HEAD", "/api/v1/events", ""); w.Code != http.StatusOK || w.Body.Len() > 0 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := ask(t, h, "GET", "/api/v1/events?job=x", ""); w.Code != http.StatusBadRequest {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestWatch: the store is read at most once per pause, and less often when a read is slow; a reader that leaves affects
// no other.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reads, takes := 0, time.Duration(0)
		w := newWatch(func(ctx context.Context) (ledger.Overview, error) {
			reads++
			select {
			case <-time.After(takes):
			case <-ctx.Done():
			}
			return ledger.Overview{At: time.Now(), Jobs: 1}, ctx.Err()
		}, error.Error, func() bool { return true })
		for range 100 {
			now, err := w.get(t.Context())
			if err != nil || now.number != 1 {
				t.Fatalf("%+v, %v", now, err)
			}
			time.Sleep(time.Second / 10)
		}
		if reads != 10 {
			t.Errorf("%d reads in 10 s", reads)
		}
		reads, takes = 0, 2*time.Second
		for range 420 {
			if _, err := w.get(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second / 10)
		}
		if reads != 3 {
			t.Errorf("%d reads of 2 s in 48 s", reads)
		}
		time.Sleep(time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := w.get(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("left in the middle: %v", err)
		}
		if now, err := w.get(t.Context()); err != nil || strings.Contains(string(now.event), "deadline") {
			t.Errorf("after that: %s, %v", now.event, err)
		}
	})
}

// TestWatchAfterAnOutage: a read that failed after a long wait is retried as soon as the replica reaches the store
// again, and not sooner otherwise. Before the first result lists are empty.
func TestWatchAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reads, up, broken := 0, true, true
		w := newWatch(func(context.Context) (ledger.Overview, error) {
			reads++
			if broken {
				time.Sleep(overviewTimeout)
				return ledger.Overview{}, context.DeadlineExceeded
			}
			return ledger.Overview{At: time.Now(), Jobs: 1}, nil
		}, error.Error, func() bool { return up })
		look := func(d time.Duration) (last snapshot) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(watchPause) {
				last, _ = w.get(t.Context())
			}
			return last
		}
		first := look(20 * time.Second)
		for _, want := range []string{`"pools":[]`, `"replicas":[]`, `"next":[]`, "deadline"} {
			if !strings.Contains(string(first.event), want) || strings.Contains(string(first.event), `"at"`) {
				t.Errorf("no %s, or a time: %s", want, first.event)
			}
		}
		if reads != 1 {
			t.Errorf("%d reads of a slow store in 20 s", reads)
		}
		up = false
		look(5 * time.Second)
		up, broken = true, false
		if now := look(2 * time.Second); reads < 2 || strings.Contains(string(now.event), "deadline") {
			t.Errorf("%d reads; 2 s after the store is back: %s", reads, now.event)
		}
	})
}

// TestWatchWhileTheStoreIsDown: an outage that the replica sees is published within a second, though reads hang.
func TestWatchWhileTheStoreIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := false
		w := newWatch(func(ctx context.Context) (ledger.Overview, error) {
			ctx, cancel := context.WithTimeout(ctx, overviewTimeout)
			defer cancel()
			<-ctx.Done()
			return ledger.Overview{}, ctx.Err()
		}, explain, func() bool { return up })
		for _, want := range []time.Duration{watchAway, overviewTimeout} {
			began := time.Now()
			now, err := w.get(t.Context())
			if took := time.Since(began); err != nil || took != want || !strings.Contains(string(now.event), "deadline") {
				t.Errorf("up %t: %v after %v: %s", up, err, took, now.event)
			}
			up = true
		}
	})
}

// TestEventsOfSlowClients: a client that reads nothing is disconnected, without effect on others.
func TestEventsOfSlowClients(t *testing.T) {
	t.Parallel()
	b := newBackend()
	for range overviewRows { // more than what lies between a server and a client
		b.triggers = append(b.triggers, jobs.Trigger{Job: "backup", Reason: strings.Repeat("x", 1<<20)})
	}
	b.triggers[0], b.triggers[overviewRows] = b.triggers[overviewRows], b.triggers[0]
	s := newAPI(b.backend(), Options{})
	s.patience = 200 * time.Millisecond
	address, _ := start(t, newServer(s.handler(nil)))
	slow := dial(t, address)
	if _, err := io.WriteString(slow, "GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := slow.Read(make([]byte, 1)); err != nil { // it has begun
		t.Fatal(err)
	}
	if got := ask(t, b.api(Options{}), "GET", "/api/v1/events", ""); got.Body.Len() < 20<<20 {
		t.Fatalf("an event has only %d bytes", got.Body.Len())
	}
	await.Until(t, "it is let go", func() bool {
		s.streams.mu.Lock()
		defer s.streams.mu.Unlock()
		return s.streams.taken == 0
	})
	if n, err := io.Copy(io.Discard, slow); errors.Is(err, os.ErrDeadlineExceeded) || n > 20<<20 {
		t.Errorf("still open: %d bytes, %v", n, err)
	}
}

// TestEventsOverHTTP2: HTTP/2 ends a stream at a passed deadline, so none is left set after an event.
func TestEventsOverHTTP2(t *testing.T) {
	t.Parallel()
	lent := httptest.NewTLSServer(nil)
	defer lent.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := newBackend()
	s := newAPI(b.backend(), Options{})
	s.patience = watchPause / 10
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() {
		served <- Serve(ctx, l, s.handler(nil), ServeOptions{TLS: &tls.Config{Certificates: lent.TLS.Certificates}})
	}()
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}}
	res, err := c.Get("https://" + l.Addr().String() + "/api/v1/events")
	if err != nil {
		t.Fatal(err)
	}
	if res.ProtoMajor != 2 {
		t.Fatalf("%s", res.Proto)
	}
	events := &stream{t, bufio.NewScanner(res.Body)}
	events.lines.Buffer(nil, 1<<20)
	for i := range 3 {
		if view, ok := events.next(); !ok || view.Jobs != 3+i {
			t.Errorf("event %d: %v %+v, %v", i, ok, view, events.lines.Err())
		}
		b.mu.Lock()
		b.jobs = append(b.jobs, ledger.JobStatus{Job: wire.Job{Name: "more", Retired: true}})
		b.mu.Unlock()
	}
	res.Body.Close()
	c.CloseIdleConnections()
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
