package storetest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

var resultCases = []Case{
	{"Results/Kept", resultsKept},
	{"Results/Stale", resultsStale},
	{"Results/Late", resultsLate},
	{"Results/Sizes", resultSizes},
	{"Results/Swept", resultsSwept},
}

func (s *scene) wantResult(what, id, want string) {
	s.t.Helper()
	got, err := s.Store.Result(s.ctx(), id)
	must(s.t, err)
	if string(got) != want {
		s.t.Errorf("%s: the result is %.80q, want %.80q", what, got, want)
	}
}

// made is a result with a value.
func made(r ledger.Result, value string) ledger.Result {
	r.Value = []byte(value)
	return r
}

// The attempt that ends a task leaves its result, however it ended, and one that is followed by another leaves none.
func resultsKept(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.enqueue("work", 9)
	tasks := s.claim("work", 9)
	s.wantResult("running", tasks[0].ID, "")
	cancelled, err := s.Store.Cancel(s.ctx(), tasks[8].ID, "me")
	if must(t, err); cancelled.State != jobs.StateRunning {
		t.Fatalf("%+v", cancelled)
	}
	s.wantFinish(s.finish(
		made(result(tasks[0], ledger.Ended, jobs.StateSucceeded), `{"n":1,"t":"ü '"}`),
		made(result(tasks[1], ledger.Ended, jobs.StateFailed), `"failed"`),
		made(result(tasks[2], ledger.Ended, jobs.StateCancelled), `3`),
		result(tasks[3], ledger.Ended, jobs.StateSucceeded),
		made(result(tasks[4], ledger.Again, jobs.StateFailed), `4`),
		made(result(tasks[5], ledger.Snoozed, jobs.StatePending), `5`),
		made(result(tasks[6], ledger.HandBack, ""), `6`),
		made(result(tasks[7], ledger.Died, jobs.StateLost), `7`),
		made(result(tasks[8], ledger.Again, jobs.StateFailed), `8`), // it ends by the cancellation
	), slicesOf(ledger.Recorded, 9)...)
	for i, want := range []string{`{"n":1,"t":"ü '"}`, `"failed"`, `3`, "", "", "", "", `7`, `8`} {
		s.wantResult(fmt.Sprint("task ", i), tasks[i].ID, want)
	}
	s.wantResult("no task", newID(), "")
	s.wantInt(5, "SELECT COUNT(*) FROM {results}")
	// Those that nearly all are, alone: their rows are not read.
	s.enqueue("work", 2)
	more := s.claim("work", 2)
	s.finish(made(result(more[0], ledger.Ended, jobs.StateSucceeded), `[0]`), made(result(more[1], ledger.Ended, jobs.StateFailed), `null`))
	s.wantResult("succeeded", more[0].ID, `[0]`)
	s.wantResult("null", more[1].ID, `null`)
	s.wantFinish(s.finish(made(result(more[0], ledger.Ended, jobs.StateSucceeded), `[1]`)), ledger.Recorded) // the answer may have been lost
	s.wantResult("written again", more[0].ID, `[0]`)
}

func slicesOf(f ledger.Finish, n int) []ledger.Finish {
	all := make([]ledger.Finish, n)
	for i := range all {
		all[i] = f
	}
	return all
}

// A result with a stale token, or of another session, is refused with the end that it comes with.
func resultsStale(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.enqueue("work", 1)
	task := s.claim("work", 1)[0]
	stale := task
	stale.Token--
	s.wantFinish(s.finish(made(result(stale, ledger.Ended, jobs.StateSucceeded), `"stale"`)), ledger.Fenced)
	other := s.second("two")
	other.wantFinish(other.finish(made(result(task, ledger.Ended, jobs.StateSucceeded), `"another's"`)), ledger.Fenced)
	s.wantEmpty("results")
	s.finish(made(result(task, ledger.Ended, jobs.StateSucceeded), `"mine"`))
	s.wantFinish(s.finish(made(result(stale, ledger.Ended, jobs.StateFailed), `"stale"`)), ledger.Fenced)
	s.wantResult("afterwards", task.ID, `"mine"`)
}

// The late end of a lost attempt brings its result.
func resultsLate(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.enqueue("work", 1)
	task := s.claim("work", 1)[0]
	other := s.second("two")
	s.die()
	other.reap()
	s.wantResult("lost", task.ID, "")
	s.wantFinish(s.finish(made(result(task, ledger.Ended, jobs.StateSucceeded), `"late"`)), ledger.Late)
	s.wantResult("late", task.ID, `"late"`)
	s.wantFinish(s.finish(made(result(task, ledger.Ended, jobs.StateSucceeded), `"later"`)), ledger.Late) // the answer may have been lost
	s.wantResult("again", task.ID, `"late"`)
}

// A result of the largest size is kept, in a batch of many too. One that is larger, or is not JSON, is left out, and the end is recorded.
func resultSizes(t *testing.T, b *Bench) {
	const tasks = 30
	s := newScene(t, b)
	s.enqueue("work", tasks)
	largest := func(i int) string {
		head := fmt.Sprintf(`"%d:`, i)
		return head + strings.Repeat("'", jobs.MaxResult-len(head)-1) + `"`
	}
	var ends []ledger.Result
	all := s.claim("work", tasks)
	for i, task := range all {
		value := largest(i)
		switch i {
		case 0:
			value = strings.Replace(value, "'", "''", 1)
		case 1:
			value = `{"not": JSON}`
		}
		ends = append(ends, made(result(task, ledger.Ended, jobs.StateSucceeded), value))
	}
	s.wantFinish(s.finish(ends...), slicesOf(ledger.Recorded, tasks)...)
	s.wantInt(tasks, "SELECT COUNT(*) FROM {done}")
	s.wantInt(tasks-2, "SELECT COUNT(*) FROM {results}")
	for i := 2; i < tasks; i += 9 {
		s.wantResult("largest", all[i].ID, largest(i))
	}
}

// Results go with their tasks.
func resultsSwept(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.enqueue("work", 3)
	tasks := s.claim("work", 3)
	for i, state := range []jobs.State{jobs.StateSucceeded, jobs.StateFailed, jobs.StateSucceeded} {
		s.finish(made(result(tasks[i], ledger.Ended, state), fmt.Sprint(i)))
	}
	s.DB.Exec(t, "UPDATE {done} SET finished_at=? WHERE id<>?", ago(3*time.Hour), tasks[2].ID)
	s.sweep(jobs.Retention{Output: time.Hour, Triggers: time.Hour}, 100)
	s.wantInt(3, "SELECT COUNT(*) FROM {results}")
	s.sweep(jobs.Retention{Succeeded: 2 * time.Hour}, 100)
	for i, want := range []string{"", "1", "2"} {
		s.wantResult("of those that succeeded", tasks[i].ID, want)
	}
	s.sweep(jobs.Retention{Succeeded: 2 * time.Hour, Failed: 2 * time.Hour}, 100)
	for i, want := range []string{"", "", "2"} {
		s.wantResult("of all", tasks[i].ID, want)
	}
	s.wantInt(1, "SELECT COUNT(*) FROM {results}")
}
