package httphandler_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lockstep-scheduler/lockstep/jobs/httphandler"
)

func TestConnectionsAreKeptInABurst(t *testing.T) {
	const tasks, workers = 2000, 64
	var connections, requests atomic.Int32
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		_, _ = io.Copy(w, r.Body)
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	h := handler(t, httphandler.Request{URL: s.URL})
	queue := make(chan int)
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for range queue {
				if err := h.Run(t.Context(), task, io.Discard); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range tasks {
		queue <- i
	}
	close(queue)
	all.Wait()
	if requests.Load() != tasks || connections.Load() > 2*workers {
		t.Errorf("%d requests over %d connections, want %d over about %d", requests.Load(), connections.Load(), tasks, workers)
	}
}

// A server that reads the second request of a connection and ends must not be asked a third time:
// it may have done the work.
func TestARequestIsSentOnce(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var requests atomic.Int32
	var served sync.WaitGroup
	served.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			served.Go(func() {
				defer conn.Close()
				read := bufio.NewReader(conn)
				for n := 1; ; n++ {
					request, err := http.ReadRequest(read)
					if err != nil {
						return
					}
					_, _ = io.Copy(io.Discard, request.Body)
					requests.Add(1)
					if n == 2 {
						return
					}
					fmt.Fprint(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
				}
			})
		}
	})
	t.Cleanup(served.Wait)
	t.Cleanup(func() { listener.Close() })
	for _, c := range []struct {
		what    string
		payload string
		header  map[string]string
	}{{"payload", "{}", nil}, {"empty", "", nil}, {"key of one's own", "{}", map[string]string{"X-Idempotency-Key": "k"}}} {
		requests.Store(0)
		again := task
		again.Payload = []byte(c.payload)
		h := handler(t, httphandler.Request{URL: "http://" + listener.Addr().String(), Headers: c.header})
		if err := h.Run(t.Context(), again, io.Discard); err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		if err := h.Run(t.Context(), again, io.Discard); !errors.Is(err, io.EOF) || requests.Load() != 2 {
			t.Errorf("%s: %v after %d requests, want the end of the connection after 2", c.what, err, requests.Load())
		}
	}
}

// A server that would speak something else than HTTP has done nothing of what it was asked.
func TestNoSuccessBelow200(t *testing.T) {
	at := echoes(t, func(string) string {
		return "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"
	})
	if _, err := run(t, httphandler.Request{URL: at}, task); err == nil || !strings.HasSuffix(err.Error(), "unexpected status 101 Switching Protocols") {
		t.Errorf("got %v", err)
	}
}

func TestUnreachableHosts(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := listener.Addr().String()
	listener.Close()
	_, err = run(t, httphandler.Request{URL: "http://" + closed + "/x?key=s3cret"}, task)
	if err == nil || !strings.HasPrefix(err.Error(), "POST http://"+closed+"/x: dial tcp "+closed) || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("got %v", err)
	}
}
