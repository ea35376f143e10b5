package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

var deadLetterCases = []Case{
	{"DeadLetters/Groups", deadGroups},
	{"DeadLetters/Tasks", deadTasks},
	{"DeadLetters/Leave", deadLeave},
	{"DeadLetters/AtLeast", deadAtLeast},
}

// fails has tasks of a pool end with these errors, and returns their ids in order.
func (s *scene) fails(pool string, failures ...string) []string {
	s.t.Helper()
	return s.endAs(pool, jobs.StateFailed, failures...)
}

// endAs is fails for any state.
func (s *scene) endAs(pool string, state jobs.State, failures ...string) []string {
	s.t.Helper()
	ids := s.enqueue(pool, len(failures))
	for s.DB.Int(s.t, "SELECT COUNT(*) FROM {tasks} WHERE pool=?", pool) > 0 {
		var results []ledger.Result
		for _, task := range s.claim(pool, 500) {
			r := result(task, ledger.Ended, state)
			r.Error, r.Code = failures[slices.Index(ids, task.ID)], reason.Error
			results = append(results, r)
		}
		s.finish(results...)
	}
	return ids
}

// dead are all groups of dead letters, read with pages of that size.
func (s *scene) dead(pool string, limit int) (all []wire.DeadLetters) {
	s.t.Helper()
	f := wire.DeadLetterFilter{Pool: pool, Page: wire.Page{Limit: limit}}
	for range 100 {
		rows, next, err := s.SQL().DeadLetters(s.ctx(), f)
		must(s.t, err)
		if len(rows) > limit {
			s.t.Fatalf("a page of %d has %d", limit, len(rows))
		}
		all = append(all, rows...)
		if f.Cursor = next; next == "" {
			return all
		}
	}
	s.t.Fatal("the list does not end")
	return nil
}

// groupsOf is how a group is written in these tests: "pool error count task", sorted.
func groupsOf(all []wire.DeadLetters) (lines []string) {
	for _, g := range all {
		lines = append(lines, fmt.Sprint(g.Pool, " ", g.Error, g.Reason, " ", g.Count, " ", g.TaskID))
	}
	slices.Sort(lines)
	return lines
}

// What failed or was lost for good is in a group of its pool with what ended in the same way; what ended well, was cancelled or has not
// ended is in none.
func deadGroups(t *testing.T, b *Bench) {
	s := newScene(t, b)
	users := s.fails("work", "user 1 not found\nat a", "user 22 not found\nat b", "user 333 not found")
	full := s.fails("work", "disk full")
	other := s.fails("default", "user 4 not found")
	s.endAs("work", jobs.StateSucceeded, "", "")
	s.endAs("work", jobs.StateCancelled, "stopped")
	lost := s.enqueue("work", 1)
	s.claim("work", 1)
	living := s.second("living")
	s.die()
	living.reap()
	s.enqueue("work", 1)

	want := []string{
		"default user 4 not found 1 " + other[0],
		"work disk full 1 " + full[0],
		"work the session of replica one expired while it had the task 1 " + lost[0],
		"work user 333 not found 3 " + users[2],
	}
	for _, limit := range []int{1, 2, 3, 50} {
		all := s.dead("", limit)
		if d := cmp.Diff(want, groupsOf(all)); d != "" {
			t.Errorf("pages of %d: %s", limit, d)
		}
		if !slices.IsSortedFunc(all, func(a, b wire.DeadLetters) int {
			return strings.Compare(a.Pool+"\n"+a.Fingerprint, b.Pool+"\n"+b.Fingerprint)
		}) {
			t.Errorf("pages of %d are not sorted: %+v", limit, all)
		}
	}
	if d := cmp.Diff(want[1:], groupsOf(s.dead("work", 2))); d != "" {
		t.Errorf("of one pool: %s", d)
	}
	if all := s.dead("again", 5); len(all) != 0 {
		t.Errorf("of a pool without any: %+v", all)
	}
	for _, g := range s.dead("work", 50) {
		if g.TaskID != users[2] {
			continue
		}
		at := func(id string) time.Time {
			return time.UnixMicro(s.DB.Int(t, "SELECT finished_at FROM {done} WHERE id=?", id)).UTC()
		}
		if g.Fingerprint != fingerprint(jobs.Task{State: jobs.StateFailed, ReasonCode: reason.Error, Error: "user 1 not found"}) ||
			g.State != jobs.StateFailed || g.ReasonCode != reason.Error || g.AtLeast || !g.First.Equal(at(users[0])) || !g.Last.Equal(at(users[2])) {
			t.Errorf("the group is %+v", g)
		}
	}
	for _, g := range s.dead("work", 50) {
		one, next, err := s.SQL().DeadLetters(s.ctx(), wire.DeadLetterFilter{Pool: g.Pool, Fingerprint: g.Fingerprint, Page: wire.Page{Limit: 1}})
		must(t, err)
		if d := cmp.Diff([]wire.DeadLetters{g}, one); d != "" || next != "" {
			t.Errorf("the group with that fingerprint: %s, next %q", d, next)
		}
	}
	for pool, print := range map[string]string{"work": "0123456789abcdef", "nothing": s.dead("work", 50)[0].Fingerprint} {
		if none, next, err := s.SQL().DeadLetters(s.ctx(), wire.DeadLetterFilter{Pool: pool, Fingerprint: print}); err != nil || len(none) != 0 || next != "" {
			t.Errorf("in pool %s with fingerprint %s: %+v, %q, %v", pool, print, none, next, err)
		}
	}
	if _, _, err := s.SQL().DeadLetters(s.ctx(), wire.DeadLetterFilter{Fingerprint: "0123456789abcdef"}); !errors.Is(err, jobs.ErrInvalid) {
		t.Errorf("a fingerprint without a pool: %v", err)
	}
	for _, page := range []wire.Page{{Limit: 501}, {Cursor: "x"}, {Limit: -1}} {
		if _, _, err := s.SQL().DeadLetters(s.ctx(), wire.DeadLetterFilter{Page: page}); !errors.Is(err, jobs.ErrInvalid) {
			t.Errorf("page %+v: %v", page, err)
		}
	}
}

// The tasks of a group are listed by its pool and fingerprint, the latest first.
func deadTasks(t *testing.T, b *Bench) {
	s := newScene(t, b)
	var failures []string
	for i := range 7 {
		failures = append(failures, fmt.Sprint("user ", i, " not found"))
	}
	ids := s.fails("work", failures...)
	s.fails("work", "disk full")
	s.fails("default", failures...)
	slices.Reverse(ids)
	group := fingerprint(jobs.Task{State: jobs.StateFailed, ReasonCode: reason.Error, Error: "user 1 not found"})
	for _, c := range []struct {
		state jobs.State
		job   string
		want  []string
	}{{"", "", ids}, {jobs.StateFailed, "", ids}, {jobs.StateLost, "", nil}, {jobs.StatePending, "", nil}, {"", "a", nil}} {
		var got []string
		f := wire.TaskFilter{Pool: "work", Job: c.job, State: c.state, Fingerprint: group, Page: wire.Page{Limit: 3}}
		for {
			page, next, err := s.SQL().Tasks(s.ctx(), f)
			must(t, err)
			for _, task := range page {
				got = append(got, task.ID)
				if task.Fingerprint != group {
					t.Errorf("a task is listed with %q", task.Fingerprint)
				}
			}
			if f.Cursor = next; next == "" {
				break
			}
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("state %q: %s", c.state, d)
		}
	}
	if _, _, err := s.SQL().Tasks(s.ctx(), wire.TaskFilter{Fingerprint: group}); !errors.Is(err, jobs.ErrInvalid) || !strings.Contains(err.Error(), "name the pool") {
		t.Errorf("without a pool: %v", err)
	}
}

// A retried task is no dead letter, and says what it was retried as. One whose own result came late is where that belongs.
func deadLeave(t *testing.T, b *Bench) {
	s := newScene(t, b)
	ids := s.fails("work", "user 1 not found", "user 2 not found")
	again, err := s.Store.Retry(s.ctx(), ids[1], "alice", true)
	must(t, err)
	if got := groupsOf(s.dead("", 5)); !slices.Equal(got, []string{"work user 1 not found 1 " + ids[0]}) {
		t.Errorf("after a retry: %q", got)
	}
	task, _, err := s.Store.Task(s.ctx(), ids[1])
	must(t, err)
	if task.RetriedAs != again.ID || task.Fingerprint != "" || task.State != jobs.StateFailed {
		t.Errorf("the task that was retried: %+v", task)
	}
	_, err = s.Store.Retry(s.ctx(), ids[0], "alice", true)
	must(t, err)
	if got := s.dead("", 5); len(got) != 0 {
		t.Errorf("after another: %+v", got)
	}
	s.DB.Exec(t, "DELETE FROM {tasks}")

	s.enqueue("work", 2)
	tasks := s.claim("work", 2)
	living := s.second("living")
	s.die()
	living.reap()
	if got := s.dead("", 5); len(got) != 1 || got[0].Count != 2 {
		t.Fatalf("of two lost tasks: %+v", got)
	}
	bad := result(tasks[1], ledger.Ended, jobs.StateFailed)
	bad.Error = "late"
	s.finish(result(tasks[0], ledger.Ended, jobs.StateSucceeded), bad)
	if got := groupsOf(s.dead("", 5)); !slices.Equal(got, []string{"work latelate 1 " + tasks[1].ID}) {
		t.Errorf("after late results: %q", got)
	}
}

// Only so many of a group are counted.
func deadAtLeast(t *testing.T, b *Bench) {
	s := newScene(t, b)
	for _, c := range []struct {
		n, count int
		more     bool
	}{{999, 999, false}, {1, 1000, false}, {1, 1000, true}, {200, 1000, true}} {
		ids := s.fails("work", slices.Repeat([]string{"disk full"}, c.n)...)
		got := s.dead("work", 5)
		first := s.DB.Int(t, "SELECT finished_at FROM {done} ORDER BY id LIMIT 1")
		if len(got) != 1 || got[0].Count != c.count || got[0].AtLeast != c.more || got[0].TaskID != ids[len(ids)-1] || got[0].First.UnixMicro() != first {
			t.Errorf("%d more: %+v, the first at %d", c.n, got, first)
		}
	}
}
