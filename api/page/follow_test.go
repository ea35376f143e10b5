package page_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lockstep-scheduler/lockstep/api"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

// TestFollowedOutput: the details of a task that runs show what it writes as it arrives. The page asks no more once the details are closed, nor
// after the end.
func TestFollowedOutput(t *testing.T) {
	t.Parallel()
	lines := make(chan string)
	s := newScene(t, jobs.Set{Jobs: map[string]jobs.Job{"import": {Handler: does(func(ctx context.Context, _ jobs.Task, out io.Writer) error {
		for {
			select {
			case line, more := <-lines:
				if !more {
					return nil
				}
				fmt.Fprintln(out, line)
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})}}}, api.Options{})
	s.close()
	var asks, open, left atomic.Int64
	served := s.handler
	s.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("follow") {
			asks.Add(1)
			open.Add(1)
			defer open.Add(-1)
			defer func() {
				if r.Context().Err() != nil {
					left.Add(1)
				}
			}()
		}
		served.ServeHTTP(w, r)
	})
	s.open("127.0.0.1:0")

	_, task, err := s.replica.RunJob(t.Context(), "import", "test", "")
	if err != nil {
		t.Fatal(err)
	}
	b := newTab(t, 1280)
	b.navigate(s.url + "jobs/import#" + task.ID)
	b.says(".more", "what it writes appears here")
	eval[bool](b, `(window.shown = document.querySelector(".more pre")) !== null`)
	lines <- "<b>one</b>"
	b.says(".more pre", "<b>one</b>")
	lines <- "two"
	b.says(".more pre", "two")
	if !eval[bool](b, `window.shown === document.querySelector(".more pre") && window.shown.textContent === "<b>one</b>\ntwo\n"`) {
		t.Errorf("it is not appended:\n%s", b.text(".more"))
	}

	toggle := `button[data-task="` + task.ID + `"]`
	await.Until(t, "it waits for more", func() bool { return open.Load() == 1 })
	b.click(toggle)
	await.Until(t, "the page has left the request", func() bool { return left.Load() == 1 && open.Load() == 0 })
	lines <- "three"
	before := asks.Load()
	b.click(toggle)
	b.says(".more pre", "three")
	if n := asks.Load(); n <= before {
		t.Errorf("it is followed again after %d requests, and before %d", n, before)
	}

	before = asks.Load()
	close(lines)
	b.says("#headline", "Its last run succeeded")
	b.says(".more", "took")
	await.Until(t, "nothing is asked any more", func() bool { return open.Load() == 0 })
	if n := asks.Load(); n > before+3 {
		t.Errorf("%d requests for the end", n-before)
	}
	if text := b.text(".more"); !strings.Contains(text, "three") || strings.Contains(text, "appears here") {
		t.Errorf("after the end:\n%s", text)
	}
	before = asks.Load()
	s.run("import")
	b.until("the next run has come", `document.querySelectorAll("#triggers tbody tr:not(.under)").length === 2`)
	if n := asks.Load(); n != before {
		t.Errorf("%d requests after the end", n-before)
	}
}
