package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// TestStarting: what a replica refuses because it is starting is asked again, the same, whatever it is,
// until it is answered or the context ends. No other 503 is.
func TestStarting(t *testing.T) {
	var asked []string
	refuse := 1
	answer := `{"error":{"code":"starting","message":"in a moment"}}`
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked = append(asked, r.RequestURI+" "+string(body))
		w.Header().Set("Content-Type", "application/json")
		if len(asked) <= refuse {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, answer)
			return
		}
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"items":[{"id":"a"}]}`)
	}))
	defer srv.Close()
	c, err := New(srv.URL, Options{})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	tasks, created, err := c.Enqueue(t.Context(), "a b", jobs.NewTask{Kind: "k"})
	if err != nil || !created || len(tasks) != 1 || len(asked) != 2 || asked[0] != asked[1] || asked[0] != `/api/v1/pools/a%20b/tasks [{"kind":"k"}]` {
		t.Errorf("%v %v %v, asked %q", tasks, created, err, asked)
	}
	if took := time.Since(began); took < time.Second {
		t.Errorf("asked again after %v", took)
	}

	asked, refuse = nil, 1000
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, _, err = c.Enqueue(ctx, "a", jobs.NewTask{})
	if refused, ok := errors.AsType[*Error](err); !ok || refused.Code != "starting" || !errors.Is(err, jobs.ErrUnavailable) || len(asked) != 1 {
		t.Errorf("the context ends: %v, asked %q", err, asked)
	}

	asked, answer = nil, `{"error":{"code":"unavailable","message":"the store does not answer"}}`
	if _, _, err := c.Enqueue(t.Context(), "a", jobs.NewTask{}); !errors.Is(err, jobs.ErrUnavailable) || len(asked) != 1 {
		t.Errorf("a store that is away: %v, asked %q", err, asked)
	}
}
