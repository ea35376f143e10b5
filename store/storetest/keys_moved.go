package storetest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/why"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

var keysMovedCases = []Case{
	{"Keys/Moved", keysMoved},
	{"Keys/FairChanges", keysFairChanges},
}

// Many tasks get an order, and lose it again, in transactions that are no larger than what a poll moves. Meanwhile nothing starts, also when the
// order changes once more before all are moved.
func keysMoved(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.perKey(jobs.KeyLimits{MaxRunning: 2}, "")
	s.many("a", 1150)
	running := s.limitedClaim("work", 20).Tasks // the others wait
	later := s.newTask(jobs.NewTask{Key: "b"})
	s.perKey(jobs.KeyLimits{}, jobs.OrderKey)
	first := s.newTask(jobs.NewTask{Key: "a", Priority: 9})
	s.moves("with an order", 100+1)
	s.wantInt(1152, "SELECT COUNT(*) FROM {key_waits}")
	if d := cmp.Diff([]string{later}, s.soon()); d != "" {
		t.Errorf("others of a run: %s", d)
	}
	s.ends(ids(running)...)
	if got := s.soon(); len(got) != 1 || got[0] == first {
		t.Errorf("of a has started %v, %s came last", got, first)
	}
	s.perKey(jobs.KeyLimits{MaxRunning: 2}, "")
	s.perKey(jobs.KeyLimits{}, jobs.OrderKey)
	s.perKey(jobs.KeyLimits{MaxRunning: 2}, "")
	s.moves("without one", 1150)
	s.wantInt(0, "SELECT COUNT(*) FROM {key_waits} WHERE place>0")
	s.starts("by priority", first)
}

// soon claims until some tasks start.
func (s *scene) soon() (started []string) {
	s.t.Helper()
	for range 5 {
		if started = ids(s.limitedClaim("work", 20).Tasks); len(started) > 0 {
			break
		}
	}
	return started
}

// moves wants that no task of pool work starts until polls have moved all, where the store does not move them at once, and that no more places
// were written before.
func (s *scene) moves(when string, most int64) {
	s.t.Helper()
	if _, is := sqlOf(s.Store); is {
		last := s.DB.Text(s.t, "SELECT id FROM {tasks} WHERE state IN (0, 4) ORDER BY id DESC LIMIT 1")
		s.explains(when, last, true)
		defer s.explains(when+", all moved", last, false)
		s.wantInt(1, "SELECT COUNT(*) FROM {pools} WHERE keys_moved IS NOT NULL")
		if n := s.DB.Int(s.t, "SELECT COUNT(*) FROM {key_waits} WHERE place>0"); n > most {
			s.t.Errorf("%s: %d places are written at once", when, n)
		}
		if got := s.limitedClaim("work", 20); len(got.Tasks)+got.Behind > 0 || got.More {
			s.t.Errorf("%s: started %d, %d wait, more %v", when, len(got.Tasks), got.Behind, got.More)
		}
	}
	s.sorted()
	s.wantInt(0, "SELECT COUNT(*) FROM {pools} WHERE keys_moved IS NOT NULL")
}

// explains wants the causes of a pending task to say first that the order of its pool changes, or not to say so.
func (s *scene) explains(when, id string, changes bool) {
	s.t.Helper()
	causes := s.why(id, why.Here{}).Causes
	is := slices.IndexFunc(causes, func(c wire.Cause) bool { return c.Code == reason.OrderChanged })
	if changes && is != 0 || !changes && is >= 0 {
		s.t.Errorf("%s: why says %+v", when, causes)
	}
}

// Whether keys share a pool changes without a write of its tasks: those that wait do so on, and start.
func keysFairChanges(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.shared(jobs.KeyLimits{MaxRunning: 2}, "", nil)
	var want []string
	for _, key := range []string{"a", "b", ""} {
		for range 4 {
			want = append(want, s.newTask(jobs.NewTask{Key: key}))
		}
	}
	var got []string
	claim := func(when string, room, most int) {
		t.Helper()
		tasks := s.limitedClaim("work", room).Tasks
		if len(tasks) > most {
			t.Errorf("%s: started %d", when, len(tasks))
		}
		var ended []ledger.Result
		for _, k := range tasks {
			got = append(got, k.ID)
			ended = append(ended, result(k, ledger.Ended, jobs.StateSucceeded))
		}
		s.finish(ended...)
	}
	claim("shared", 3, 3)
	waits := s.DB.Int(t, "SELECT COUNT(*) FROM {key_waits}")
	s.perKey(jobs.KeyLimits{MaxRunning: 1}, "")
	s.wantInt(waits, "SELECT COUNT(*) FROM {key_waits}")
	claim("not shared", 4, 4)
	s.shared(jobs.KeyLimits{MaxRunning: 1}, "", nil)
	claim("shared again", 2, 2)
	s.perKey(jobs.KeyLimits{}, "")
	for i := range 5 {
		claim(fmt.Sprint("without limits, ", i), 20, 20)
	}
	slices.Sort(got)
	slices.Sort(want)
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	s.wantInt(0, "SELECT COUNT(*) FROM {key_waits}")
	s.wantInt(0, "SELECT COUNT(*) FROM {pools} WHERE keys_left<>0")
}
