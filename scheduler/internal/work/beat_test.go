package work

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/internal/bound"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/membership"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
)

// extending is a store that notes which rows are to be extended.
type extending struct {
	*replicatest.Picky
	moves  []ledger.Extension
	refuse map[string]bool // tasks whose rows are not this session's any more
	stuck  error
	then   func() // before it answers
}

func (e *extending) Extend(_ context.Context, _ string, moves []ledger.Extension) ([]bool, error) {
	e.moves = append(e.moves, moves...)
	if e.then != nil {
		e.then()
	}
	ours := make([]bool, len(moves))
	for i, m := range moves {
		ours[i] = !e.refuse[m.TaskID]
	}
	return ours, e.stuck
}

// With each heartbeat the handlers learn until when they may run, and attempts that have passed a due time of their job may
// run until the next one, if the row is still theirs. All others keep the time that they have.
func TestWhichAttemptsMayRunLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &extending{Picky: replicatest.NewPicky(nil), refuse: map[string]bool{"taken": true}}
		hourly := jobs.Job{Schedule: "@hourly", Handler: replicatest.Blocked{}, Timeout: 24 * time.Hour}
		retried := hourly
		retried.OnLost = jobs.LostRetries
		s, err := newOn(st, nil, jobs.Set{Jobs: map[string]jobs.Job{"j": hourly, "r": retried}}, Options{ID: "a"})
		if err != nil {
			t.Fatal(err)
		}
		s.members.Clock().Observe(boottime.Awake(), time.Now())
		s.assume(&membership.Session{ID: "session 1", Trust: boottime.Awake().Add(9 * time.Second)})
		beat := func() {
			s.assume(&membership.Session{ID: "session 1", Trust: boottime.Awake().Add(9 * time.Second)})
			s.work.Renewed(t.Context())
		}
		now := time.Now()
		passed, ahead := now.Add(-time.Minute), now.Add(time.Minute)
		next := now.Truncate(time.Hour).Add(time.Hour)
		all := map[string]*attempt{}
		for id, a := range map[string]*attempt{
			"passed":        {task: &jobs.Task{Job: "j"}, mayRun: passed},
			"ahead":         {task: &jobs.Task{Job: "j"}, mayRun: ahead},
			"taken":         {task: &jobs.Task{Job: "j"}, mayRun: passed},
			"retried":       {task: &jobs.Task{Job: "r"}, mayRun: passed},
			"without a job": {task: &jobs.Task{}, mayRun: passed},
			"unknown":       {task: &jobs.Task{Job: "x"}, mayRun: passed},
			"other session": {task: &jobs.Task{Job: "j"}, mayRun: passed, session: "session 0"},
		} {
			a.task.ID, a.task.Token, a.bound = id, 7, bound.New(boottime.Awake(), 0)
			if a.session == "" {
				a.session = s.work.member.Session().ID
			}
			all[id] = a
			s.work.register.run(a)
		}
		time.Sleep(time.Second)
		beat()
		trusted := s.work.member.Session().Trust.Until()
		for id, a := range all {
			until, left := passed, trusted
			switch id {
			case "ahead":
				until, left = ahead, ahead.Sub(time.Now())
			case "passed":
				until, left = next, next.Sub(time.Now())
			case "other session":
				left = passed.Sub(time.Now())
			}
			if got := a.bound.Left(); !a.until().Equal(until) || (got-left).Abs() > 50*time.Millisecond {
				t.Errorf("%s: may run until %v, want %v; its handler has %v, want %v", id, a.until(), until, got, left)
			}
		}
		asked := map[string]bool{}
		for _, m := range st.moves {
			if asked[m.TaskID] = true; m.Token != 7 || !m.Until.Equal(next) {
				t.Errorf("asked for %+v", m)
			}
		}
		if diff := cmp.Diff(map[string]bool{"passed": true, "taken": true}, asked); diff != "" {
			t.Errorf("asked for (-want +got):\n%s", diff)
		}

		all["passed"].setUntil(passed)
		st.stuck = jobs.ErrUnavailable
		if beat(); !all["passed"].until().Equal(passed) {
			t.Errorf("without an answer it may run until %v", all["passed"].until())
		}
		st.stuck, st.then = nil, func() {
			for _, id := range []string{"passed", "taken"} {
				s.work.register.forget(all[id])
			}
		}
		if beat(); !all["passed"].until().Equal(passed) {
			t.Errorf("what has ended meanwhile may run until %v", all["passed"].until())
		}
		st.moves = nil
		if beat(); len(st.moves) > 0 {
			t.Errorf("asked for %v", st.moves)
		}
	})
}
