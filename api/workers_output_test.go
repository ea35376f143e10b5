//go:build !fuzz

package api_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/api"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// What a worker, or a server that had accepted a request, sends as output is kept as the output of a command: its head and its tail.
func TestOutputOfWorkersIsCut(t *testing.T) {
	o, came := acceptance(t, api.Options{})
	const sent, half = 700_000, 32 << 10
	text := strings.Repeat("a", half) + strings.Repeat("-", sent-2*half) + strings.Repeat("z", half)
	want := fmt.Sprintf("%s\n… %d bytes left out …\n%s", text[:half], sent-2*half, text[sent-half:])
	for _, how := range []string{"complete", "fail"} {
		for _, pool := range []string{"mail", "web"} {
			id, c := o.enqueue(jobs.NewTask{Pool: pool}), claimed{}
			if pool == "mail" {
				c = o.one(pool)
				o.end(c, how, map[string]any{"output": text}, 200, "")
			} else {
				c = <-came
				if status, answer := o.said(c, how, map[string]any{"output": text}); status != 200 {
					t.Fatalf("%s: %d %v", how, status, answer)
				}
			}
			if got, err := o.store.Sides().API.Output(t.Context(), id, 1); err != nil || string(got) != want {
				t.Errorf("%s in %s: %d bytes are kept, want %d, %v", how, pool, len(got), len(want), err)
			}
			if how == "fail" { // what is retried is ended, so that it is not the next one
				if pool == "mail" {
					o.end(o.one(pool), "complete", nil, 200, "")
				} else if status, answer := o.said(<-came, "complete", nil); status != 200 {
					t.Errorf("completed: %d %v", status, answer)
				}
			}
		}
	}
}
