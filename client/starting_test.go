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

// TestStarting: a request refused as starting or busy is repeated unchanged until it is answered or the context ends;
// after any other 503 or 429 it is not.
func TestStarting(t *testing.T) {
	var asked []string
	refuse, status := 1, http.StatusServiceUnavailable
	answer := `{"error":{"code":"starting","message":"in a moment"}}`
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked = append(asked, r.RequestURI+" "+string(body))
		w.Header().Set("Content-Type", "application/json")
		if len(asked) <= refuse {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(status)
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
	tasks, err := c.Enqueue(t.Context(), jobs.NewTask{Pool: "a b", Kind: "k"})
	if err != nil || len(tasks) != 1 || len(asked) != 2 || asked[0] != asked[1] || asked[0] != `/api/v1/pools/a%20b/tasks [{"kind":"k"}]` {
		t.Errorf("%v %v, asked %q", tasks, err, asked)
	}
	if took := time.Since(began); took < time.Second {
		t.Errorf("asked again after %v", took)
	}

	asked, refuse = nil, 1000
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = c.Enqueue(ctx, jobs.NewTask{Pool: "a"})
	if refused, ok := errors.AsType[*Error](err); !ok || refused.Code != "starting" || !errors.Is(err, jobs.ErrUnavailable) || len(asked) != 1 {
		t.Errorf("the context ends: %v, asked %q", err, asked)
	}

	asked, refuse, status, answer = nil, 1, http.StatusTooManyRequests, `{"error":{"code":"busy","message":"in a moment"}}`
	if _, err := c.Enqueue(t.Context(), jobs.NewTask{Pool: "a"}); err != nil || len(asked) != 2 || asked[0] != asked[1] {
		t.Errorf("a busy replica: %v, asked %q", err, asked)
	}
	asked, answer = nil, `{"error":{"code":"too_many_requests","message":"bad tokens"}}`
	if _, err := c.Enqueue(t.Context(), jobs.NewTask{Pool: "a"}); err == nil || len(asked) != 1 {
		t.Errorf("too many bad tokens: %v, asked %q", err, asked)
	}

	asked, refuse, status, answer = nil, 1000, http.StatusServiceUnavailable, `{"error":{"code":"unavailable","message":"the store does not answer"}}`
	if _, err := c.Enqueue(t.Context(), jobs.NewTask{Pool: "a"}); !errors.Is(err, jobs.ErrUnavailable) || len(asked) != 1 {
		t.Errorf("a store that is away: %v, asked %q", err, asked)
	}
}
