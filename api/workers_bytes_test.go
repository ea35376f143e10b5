//go:build !fuzz

package api_test

import (
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/api"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// An answer with tasks has 1 MiB of payloads at most, or one task, so that a worker on a slow line has it in time. The rest is left to the next
// claim, also of what comes again since its answer was lost.
func TestTheBytesOfAClaim(t *testing.T) {
	o := openOffice(t, 1, 10*time.Second, api.Options{})
	for range 10 {
		o.enqueue(jobs.NewTask{Pool: "mail", Payload: strings.Repeat("x", 200<<10)})
	}
	small := o.enqueue(jobs.NewTask{Pool: "mail"})
	session, first := o.claim(0, "mail", "", map[string]any{"max": 100})
	_, second := o.claim(0, "mail", session, map[string]any{"max": 100})
	if len(first) != 5 || len(second) != 6 || second[5].id != small {
		t.Errorf("claimed %d and %d", len(first), len(second))
	}
	if counts := o.waiting("mail"); counts != 0 {
		t.Errorf("%d wait", counts)
	}
	have := []string{}
	for n, want := range []int{5, 6} {
		_, again := o.claim(0, "mail", session, map[string]any{"max": 100, "have": have})
		if len(again) != want {
			t.Errorf("answer %d again: %d tasks", n, len(again))
		}
		for _, task := range again {
			have = append(have, task.id)
		}
	}
}

// waiting is how many tasks of a pool are pending.
func (o *office) waiting(pool string) int {
	o.t.Helper()
	_, answer := o.call(0, "GET", "tasks?state=pending&pool="+pool, nil)
	return len(answer["items"].([]any))
}
