package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Where the answer to a batch is lost, nobody says that it was not enqueued: to send it again would do
// its work twice.
func TestManyWithoutAnAnswer(t *testing.T) {
	for name, last := range map[string]http.HandlerFunc{
		"hung up":     func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"a proxy":     func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) },
		"unavailable": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
	} {
		t.Run(name, func(t *testing.T) {
			requests := 0
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if requests++; requests > 1 {
					last(w, r)
					return
				}
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, `{"items":[`+strings.Repeat(`{"id":"x"},`, 999)+`{"id":"x"}]}`)
			}))
			defer srv.Close()
			r := &running{url: srv.URL}
			code, _, stderr := r.scheduler(t, strings.Repeat("{}\n", 2500), "tasks", "enqueue", "mail", "--many")
			if code != exitFailed || !strings.Contains(stderr, "Of lines 1001 to 2000 it is not known") {
				t.Errorf("%d %q", code, stderr)
			}
		})
	}
}
