package store

import (
	"path/filepath"
	"testing"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// A task may have been claimed, and have ended, before the COMMIT that made it is settled: it
// is not made a second time.
func TestATaskEndsBeforeItsCommitIsSettled(t *testing.T) {
	eachDuel(t, func(d *duel) {
		runs := 0
		work := func() {
			for _, task := range d.claim(d.fast, d.two, "q", 9) {
				runs++
				d.finish(d.fast, d.two, task, jobs.StateFailed)
			}
		}
		d.loses(false, work)
		all, err := d.late.Enqueue(d.t.Context(), jobs.NewTask{Pool: "q"})
		d.check(err)
		d.lost()
		d.loses(false, work)
		retry, err := d.late.Retry(d.t.Context(), all[0].Task.ID, "me", false)
		d.check(err)
		d.lost()
		work()
		if runs != 2 || text(d.t, d.late, `SELECT COUNT(*) FROM {done}`) != "2" || retry.RetryOf != all[0].Task.ID {
			d.t.Errorf("a task and its retry ran %d times; the retry is %+v", runs, retry)
		}
	})
}

// If the COMMIT of Expire has no answer, the result is not true for a session that another replica has declared dead
// before.
func TestExpireClaimsNothingOfOthers(t *testing.T) {
	s := migrated(t, "sqlite", filepath.Join(t.TempDir(), "a.db"), Options{})
	commits := &lostCommit{Dialect: s.db.Dialect}
	s.db.Dialect = commits
	session, err := s.Sides().Replica.Join(t.Context(), ledger.Member{Replica: "r", LockService: "x"})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []bool{true, false} {
		commits.lose = true
		if expired, err := s.Sides().Replica.Expire(t.Context(), session, 0); err != nil || expired != want {
			t.Errorf("declared dead by this one: %t, want %t: %v", expired, want, err)
		}
	}
}
