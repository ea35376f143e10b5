package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/client"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// ended is a replica of which a task has ended, and whose store does not answer so many requests for its outputs.
type ended struct{ silent int }

func (e *ended) RoundTrip(req *http.Request) (*http.Response, error) {
	status, body := http.StatusOK, `{"id":"a","state":"succeeded","attempt":1}`
	if strings.HasSuffix(req.URL.Path, "/logs") {
		if body = `{"task":{"id":"a","state":"succeeded","attempt":2},"items":[{"attempt":1,"at":0,"text":"no end"},{"attempt":2,"at":0,"text":"the "},` +
			`{"attempt":2,"at":9,"left_out":5,"text":"output\n"}],"next":"x","ended":true}`; e.silent > 0 {
			status, body = http.StatusServiceUnavailable, `{"error":{"code":"unavailable","message":"the store does not answer"}}`
			e.silent--
		}
	}
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), Request: req}, nil
}

// The outputs of a task that has ended are printed, each on lines of its own, when the store answers again, and missed with an error where that is not within a minute.
func TestOutputAfterTheEnd(t *testing.T) {
	for what, c := range map[string]struct {
		silent int
		output string
		took   time.Duration // within a second
		err    error
	}{
		"at once":     {0, "no end\nthe \n… 5 bytes left out …\noutput\n", 0, nil},
		"after a few": {3, "no end\nthe \n… 5 bytes left out …\noutput\n", 150 * time.Millisecond, nil},
		"never":       {1000, "", time.Minute, jobs.ErrUnavailable},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				replica, err := client.New("http://replica.test", client.Options{HTTPClient: &http.Client{Transport: &ended{c.silent}}})
				if err != nil {
					t.Fatal(err)
				}
				var stdout, stderr strings.Builder
				a := &app{stdout: &stdout, stderr: &stderr, exact: &stdout, output: "table", now: time.Now}
				began := time.Now()
				err = a.followRun(t.Context(), replica, jobs.Task{ID: "a"})
				if took := time.Since(began); !errors.Is(err, c.err) || stdout.String() != c.output || took < c.took || took > c.took+time.Second {
					t.Errorf("%q, %v after %v", stdout.String(), err, took)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		replica, _ := client.New("http://replica.test", client.Options{HTTPClient: &http.Client{Transport: &ended{1000}}})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		a := &app{stdout: io.Discard, stderr: io.Discard, exact: io.Discard, output: "table", now: time.Now}
		if err := a.followRun(ctx, replica, jobs.Task{ID: "a"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after the end of ctx: %v", err)
		}
	})
}
