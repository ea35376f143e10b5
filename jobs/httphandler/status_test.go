package httphandler_test

import (
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/httphandler"
)

// The code of a failure is the status of the answer, or what a proxy would have answered.
func TestCodesOfFailures(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	for what, c := range map[string]struct {
		url  string
		want int
	}{
		"an answer":           {serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(418) }), 418},
		"an answer to wait":   {serve(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Retry-After", "1"); w.WriteHeader(503) }), 503},
		"no connection":       {"http://" + closed.Addr().String(), 502},
		"a connection breaks": {serve(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }), 502},
		"an answer breaks off": {serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "9")
			w.WriteHeader(200)
		}), 502},
		"no answer in time": {serve(t, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.ReadAll(r.Body); <-r.Context().Done() }), 504},
		"a success":         {serve(t, func(http.ResponseWriter, *http.Request) {}), 0},
	} {
		_, err := run(t, httphandler.Request{URL: c.url, Timeout: time.Second}, task)
		if got := jobs.FailureCode(err); got != c.want {
			t.Errorf("%s: %d, want %d, of %v", what, got, c.want, err)
		}
	}
}
