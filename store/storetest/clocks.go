package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

var clockCases = []Case{
	{"Clocks/Ready", clockOfReady},
	{"Clocks/Claim", clockOfClaim},
	{"Clocks/Sweep", clockOfSweep},
	{"Clocks/Assert", clockOfAssert},
}

// The database's clock is not believed, or an hour ahead of what is believed, or behind it.
func noClock(time.Time) (time.Time, error)             { return time.Time{}, ledger.ErrClock }
func anHourLess(database time.Time) (time.Time, error) { return database.Add(-time.Hour), nil }
func anHourMore(database time.Time) (time.Time, error) { return database.Add(time.Hour), nil }

// A task becomes ready when it is due by the time that is believed.
func clockOfReady(t *testing.T, b *Bench) {
	s := newScene(t, b)
	id := s.enqueue("work", 1)[0]
	s.DB.Exec(t, "UPDATE {tasks} SET state=1, run_at=?", ago(30*time.Minute))
	if is, err := b.Store.Ready(s.ctx(), noClock); !errors.Is(err, ledger.ErrClock) || len(is.Pools) > 0 {
		t.Errorf("%v, %v", is.Pools, err)
	}
	is, err := b.Store.Ready(s.ctx(), anHourLess)
	must(t, err)
	if len(is.Pools) > 0 || is.Next.IsZero() {
		t.Errorf("pools %v are ready, and the next task at %v", is.Pools, is.Next)
	}
	s.want("row", s.task(id), "waits attempt 0 token 0 replica -: -")
	if is, err = b.Store.Ready(s.ctx(), asIs); err != nil || !cmp.Equal(is.Pools, []string{"work"}) {
		t.Errorf("%v, %v", is.Pools, err)
	}
	s.DB.Exec(t, "UPDATE {tasks} SET state=1, run_at=?", ago(-30*time.Minute))
	if is, err = b.Store.Ready(s.ctx(), anHourMore); err != nil || !cmp.Equal(is.Pools, []string{"work"}) || !is.Next.IsZero() {
		t.Errorf("%v, and the next task at %v, %v", is.Pools, is.Next, err)
	}
}

// What a wrong clock made ready is left alone until it is due; what was due when it was made never waits.
func clockOfClaim(t *testing.T, b *Bench) {
	s := newScene(t, b)
	made := s.enqueue("work", 3)
	s.DB.Exec(t, "UPDATE {tasks} SET run_at=?", ago(30*time.Minute))
	s.DB.Exec(t, "UPDATE {tasks} SET created_at=run_at WHERE id=?", made[1])
	c := s.claiming("work", 9)
	c.Now = anHourLess
	got, err := tasksOf(b.Store.Claim(s.ctx(), c))
	must(t, err)
	if d := cmp.Diff(made[1:2], ids(got.Tasks)); d != "" {
		t.Error(d)
	}
	if got := s.claim("work", 9); len(got) != 2 {
		t.Errorf("claimed %v", ids(got))
	}
}

// Nothing is older than its retention for a clock that is wrong.
func clockOfSweep(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.enqueue("work", 1)
	s.finish(result(s.claim("work", 1)[0], ledger.Ended, jobs.StateSucceeded))
	s.DB.Exec(t, "UPDATE {done} SET finished_at=?", ago(30*time.Minute))
	r := jobs.Retention{Succeeded: 10 * time.Minute}
	if _, err := b.Store.Sweep(s.ctx(), noClock, r, 9); !errors.Is(err, ledger.ErrClock) {
		t.Error(err)
	}
	_, err := b.Store.Sweep(s.ctx(), anHourLess, r, 9)
	must(t, err)
	s.wantInt(1, "SELECT COUNT(*) FROM {done}")
	s.sweep(r, 9)
	s.wantEmpty("done")
}

// The cursor of a job whose schedule is new does not go by a wrong clock: what it jumps over never runs.
func clockOfAssert(t *testing.T, b *Bench) {
	a := Join(t, b, "a")
	d := ledger.Definitions{Jobs: []ledger.JobDef{JobDef("j", "1", "s1")}, Pools: []ledger.PoolDef{{Name: "p", Hash: "1"}}, Now: noClock}
	if _, err := b.Store.Load(t.Context(), a, d); !errors.Is(err, ledger.ErrClock) {
		t.Error(err)
	}
	if n := b.DB.Int(t, "SELECT COUNT(*) FROM {jobs}"); n > 0 {
		t.Errorf("%d jobs were written", n)
	}
	d.Now = anHourLess
	assertHolds(t, b, a, d, true)
	if cursor := b.DB.Int(t, "SELECT cursor_at FROM {jobs}"); cursor > ago(59*time.Minute) {
		t.Errorf("the cursor is at %v", time.UnixMicro(cursor))
	}
	d.Now = noClock
	assertHolds(t, b, a, d, true) // there is nothing to do
}
