package storetest

import (
	"testing"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

var lostLimitCases = []Case{
	{"LostLimit/Pool", lostLimitOfPool},
	{"LostLimit/Job", lostLimitOfJob},
}

// loses has the replica of the scene claim a task and die, and says how that ended.
func (s *scene) loses(living *scene, claim func() jobs.Task) jobs.Task {
	s.t.Helper()
	s.session = s.join("one")
	task := claim()
	s.die()
	reaped := living.reap()
	if len(reaped) != 1 || reaped[0].Task.ID != task.ID {
		s.t.Fatalf("reaped %+v", reaped)
	}
	s.DB.Exec(s.t, "UPDATE {tasks} SET run_at=1, state=0")
	return reaped[0].Task
}

// A task of a pool may be lost as often as its pool says when it is claimed.
func lostLimitOfPool(t *testing.T, b *Bench) {
	s := newScene(t, b)
	living := s.second("living")
	d := definitions()
	limit := func(n int) {
		t.Helper()
		d.Pools[0].LostLimit = n // of the pool again
		_, err := s.Store.Load(s.ctx(), living.session, d)
		must(t, err)
	}
	claim := func() jobs.Task { return s.claim("again", 1)[0] }
	s.die()
	for _, c := range []struct {
		limits []int // at each claim
		ends   bool
	}{{[]int{1}, true}, {[]int{2, 2}, true}, {[]int{5, 5, 5, 5, 5}, true}, {[]int{5, 5, 5, 5}, false}, {[]int{5, 5, 1}, true}, {[]int{0, 0, 0}, true}, {[]int{0, 0}, false}} {
		s.enqueue("again", 1)
		var task jobs.Task
		for _, n := range c.limits {
			limit(n)
			task = s.loses(living, claim)
		}
		if ended := task.State == jobs.StateLost; ended != c.ends || ended != (task.ReasonCode == reason.Quarantined) || task.Lost != len(c.limits) {
			t.Errorf("%v: %s after %d losses, %s", c.limits, task.State, task.Lost, task.ReasonCode)
		}
		s.DB.Exec(t, "DELETE FROM {tasks}")
	}
}

// That of a job is in its tasks from the start.
func lostLimitOfJob(t *testing.T, b *Bench) {
	s := newScene(t, b)
	living := s.second("living")
	s.die()
	for i, n := range []int{1, 4, 0} {
		opening := run("a", due(i+1), false)
		task := opening.Triggers[0].Task
		task.OnLost, task.LostLimit = jobs.LostRetries, n
		_, err := living.Store.Decide(s.ctx(), living.deciding(func([]ledger.JobState) []ledger.Decision { return []ledger.Decision{opening} }))
		must(t, err)
		lost, most := jobs.Task{State: jobs.StatePending}, max(n, 1)
		if n == 0 {
			most = 3
		}
		for lost.State == jobs.StatePending && lost.Lost <= most {
			lost = s.loses(living, func() jobs.Task { return s.claim("default", 1)[0] })
		}
		if lost.State != jobs.StateLost || lost.Lost != most || lost.ReasonCode != reason.Quarantined {
			t.Errorf("limit %d: %s after %d losses, %s", n, lost.State, lost.Lost, lost.ReasonCode)
		}
	}
}
