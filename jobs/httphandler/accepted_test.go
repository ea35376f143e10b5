package httphandler

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/accepted"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// 202 lasts until somebody says how the work ended, where somebody can, and for longer than the request may take; else, and where it is
// expected, it is a success.
func TestAccepted(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusAccepted) }))
	defer server.Close()
	gone := errors.New("it is drained")
	for what, c := range map[string]struct {
		request Request
		ends    func(ctx context.Context) error // nil: nobody can say
		want    string
	}{
		"nobody says it":    {Request{}, nil, ""},
		"it is expected":    {Request{ExpectStatus: []int{200, 202}}, func(context.Context) error { return errors.New("waited") }, ""},
		"another is":        {Request{ExpectStatus: []int{200}}, func(context.Context) error { return errors.New("waited") }, "unexpected status 202"},
		"it succeeds":       {Request{Timeout: 100 * time.Millisecond}, func(ctx context.Context) error { time.Sleep(300 * time.Millisecond); return ctx.Err() }, ""},
		"it ends otherwise": {Request{}, func(context.Context) error { return accepted.ErrEnded }, accepted.ErrEnded.Error()},
		"it is stopped":     {Request{}, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, gone.Error()},
	} {
		t.Run(what, func(t *testing.T) {
			c.request.URL = server.URL
			h, err := New(c.request)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			if c.ends != nil {
				ctx = accepted.With(ctx, c.ends)
			}
			if what == "it is stopped" {
				time.AfterFunc(100*time.Millisecond, func() { cancel(gone) })
			}
			err = h.Run(ctx, jobs.Task{ID: "1", Pool: "p", Attempt: 1, Token: 1}, io.Discard)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if h.EndsElsewhere() != (len(c.request.ExpectStatus) == 0) {
				t.Errorf("it says that it ends elsewhere: %t", h.EndsElsewhere())
			}
		})
	}
}
