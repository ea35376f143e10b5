package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// The cursor of a backfill, and its runs, move together; how these have ended is read in the next transaction, and shown before that.
func backfilled(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.DB.Exec(t, "UPDATE {jobs} SET cursor_at=?, next_at=?", past(-1).UnixMicro(), past(1).UnixMicro())
	o := s.fill(-9, -1, false)
	make2 := func(is ledger.OrderState) (ledger.Order, []ledger.Opening) {
		next := is.Order
		var opened []ledger.Opening
		for n := range 2 {
			run := runFor(is.Order, is.Progress.Cursor.Add(time.Microsecond+time.Duration(n)*time.Minute), jobs.CauseBackfill)
			opened = append(opened, run)
			next.Progress.Open = append(slices.Clone(next.Progress.Open), ledger.OrderRun{At: run.Trigger.At, Task: run.Task.ID})
			next.Progress.Cursor = run.Trigger.At
			next.Progress.Made++
		}
		next.NextAt = past(7)
		return next, opened
	}
	got, err := s.makes(o, make2)
	must(t, err)
	first, second := got.Opened[0], got.Opened[1]
	if first.ScheduledAt.After(second.ScheduledAt) {
		first, second = second, first
	}
	s.wantInt(2, "SELECT COUNT(*) FROM {triggers} WHERE job='a' AND cause='backfill' AND seq=1 AND order_id=? AND at IN (?, ?)", o.ID, past(-9).UnixMicro(), past(-8).UnixMicro())
	s.wantInt(past(7).UnixMicro(), "SELECT next_at FROM {orders}")
	shown := func(want string) {
		t.Helper()
		v := s.view(o.ID).Backfill
		is := fmt.Sprintf("made %d ran %d running %d succeeded %d failed %d cancelled %d left %d", v.Made, v.Ran, v.Running, v.Succeeded, v.Failed, v.Cancelled, v.Left)
		s.want("progress", is, want)
	}
	shown("made 2 ran 0 running 2 succeeded 0 failed 0 cancelled 0 left 6")

	for _, task := range s.claim("work", 2) {
		state := jobs.StateSucceeded
		if task.ID == second.ID {
			state = jobs.StateFailed
		}
		s.finish(result(task, ledger.Ended, state))
	}
	shown("made 2 ran 0 running 0 succeeded 1 failed 1 cancelled 0 left 6")
	got, err = s.makes(o, func(is ledger.OrderState) (ledger.Order, []ledger.Opening) {
		if len(is.Ended) != 2 || is.Ended[first.ID] != jobs.StateSucceeded || is.Ended[second.ID] != jobs.StateFailed {
			t.Errorf("ended are %v", is.Ended)
		}
		if len(is.Ran) > 0 || !is.RanTo.IsZero() {
			t.Errorf("ran are %v to %v", is.Ran, is.RanTo)
		}
		is.Progress.Ends(is.Ended)
		next, opened := make2(is)
		return next, opened
	})
	must(t, err)
	shown("made 4 ran 0 running 2 succeeded 1 failed 1 cancelled 0 left 4")

	// The decision of the job itself knows which of its tasks were made so.
	knows := func(want bool) {
		t.Helper()
		_, err := s.Store.Decide(s.ctx(), s.deciding(func(states []ledger.JobState) []ledger.Decision {
			if states[0].Backfilled != want || len(states[0].Open) == 0 {
				t.Errorf("a backfill made one of %d open tasks: %t", len(states[0].Open), states[0].Backfilled)
			}
			return nil
		}))
		must(t, err)
	}
	knows(true)
	// One was cancelled before it started, and the row of the other was deleted.
	s.DB.Exec(t, "DELETE FROM {triggers} WHERE task_id=?", got.Opened[1].ID)
	if _, err := s.Store.Cancel(s.ctx(), got.Opened[0].ID, "ann"); err != nil {
		t.Fatal(err)
	}
	shown("made 4 ran 0 running 0 succeeded 1 failed 1 cancelled 2 left 4")
	knows(false)
	_, err = s.Store.CancelOrder(s.ctx(), o.ID, "ann")
	must(t, err)
	shown("made 4 ran 0 running 0 succeeded 1 failed 1 cancelled 2 left 4")
}

// What has run, or is about to, is known by the ledger; what was skipped or missed has not.
func whatRan(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.DB.Exec(t, "UPDATE {jobs} SET cursor_at=?, next_at=?", past(-9).UnixMicro(), past(1).UnixMicro())
	not := func(n int, o jobs.Outcome) ledger.Decision {
		return ledger.Decision{Job: "a", Cursor: past(n), NextAt: past(n + 1), Triggers: []ledger.Opening{{
			Trigger: jobs.Trigger{Job: "a", At: past(n), Count: 1, Cause: jobs.CauseSchedule, Outcome: o},
		}}}
	}
	for _, d := range []ledger.Decision{run("a", past(-8), true), not(-7, jobs.Skipped), not(-6, jobs.Missed), run("a", past(-5), false), run("b", past(-7), true), run("a", past(-4), false)} {
		_, err := s.decide(d)
		must(t, err)
	}
	for _, task := range s.claim("default", 1) { // the one of past(-5)
		s.finish(result(task, ledger.Ended, jobs.StateFailed))
	}
	s.DB.Exec(t, "UPDATE {triggers} SET outcome='lost' WHERE job='a' AND at=?", past(-4).UnixMicro())
	at := func(from, to time.Time, limit int) string {
		ran, err := s.Store.Ran(s.ctx(), "a", from, to, limit)
		must(t, err)
		var all []string
		for _, r := range ran {
			all = append(all, fmt.Sprint(r.Sub(past(0)).Minutes()))
		}
		return strings.Join(all, " ")
	}
	s.want("ran", at(past(-9), past(0), 10), "-8 -5 -4")
	s.want("of some time", at(past(-8), past(-4), 10), "-8 -5")
	s.want("the first", at(past(-9), past(0), 2), "-8 -5")

	for _, again := range []bool{false, true} {
		o := s.fill(-9, -1, again)
		_, err := s.makes(o, func(is ledger.OrderState) (ledger.Order, []ledger.Opening) {
			if got := len(is.Ran); again != (got == 0) || !is.RanTo.IsZero() {
				t.Errorf("again %v: ran are %v to %v", again, is.Ran, is.RanTo)
			}
			is.Progress.Cursor, is.NextAt = past(-5), past(9)
			return is.Order, nil
		})
		must(t, err)
		_, err = s.makes(o, func(is ledger.OrderState) (ledger.Order, []ledger.Opening) {
			if want := !again; want != (len(is.Ran) == 1 && is.Ran[0].Equal(past(-4))) {
				t.Errorf("again %v: behind the cursor ran %v", again, is.Ran)
			}
			return is.Order, nil
		})
		must(t, err)
	}
}

// Orders that have ended are kept as long as the ledger.
func sweptOrders(t *testing.T, b *Bench) {
	s := newScene(t, b)
	open, old, young := s.orderAt(time.Now().Add(time.Hour)), s.orderAt(time.Now().Add(time.Hour)), s.orderAt(time.Now().Add(time.Hour))
	for _, o := range []ledger.Order{old, young} {
		_, err := s.Store.CancelOrder(s.ctx(), o.ID, "")
		must(t, err)
	}
	s.DB.Exec(t, "UPDATE {orders} SET ended_at=ended_at-? WHERE id=?", (2 * time.Hour).Microseconds(), old.ID)
	_, err := s.Store.Sweep(s.ctx(), asIs, jobs.Retention{Triggers: time.Hour}, 100)
	must(t, err)
	s.wantInt(2, "SELECT COUNT(*) FROM {orders}")
	for _, o := range []ledger.Order{open, young} {
		s.view(o.ID)
	}
}

// Many deciders, and one that cancels, at the same orders: each run of an order is made once, no due time of a backfill twice, and no more are open than may be.
func ordersTogether(t *testing.T, b *Bench) {
	s := newScene(t, b)
	other := s.second("two")
	at := time.Now().UTC().Truncate(time.Second).Add(time.Hour)
	const n, filled = 12, 40
	var all []ledger.Order
	for range n {
		all = append(all, s.orderAt(at))
	}
	cancelled := all[0]
	fill := s.fill(-filled, 0, false)
	become := func(is ledger.OrderState) (ledger.Order, []ledger.Opening) {
		next := is.Order
		if is.Kind == wire.OrderRun {
			run := runFor(is.Order, at, jobs.CauseManual)
			next.Progress.TaskID = run.Task.ID
			next.Close(at, wire.OrderDone, "", "")
			return next, []ledger.Opening{run}
		}
		next.Progress.Open = slices.Clone(next.Progress.Open)
		next.Progress.Ends(is.Ended)
		due := next.Progress.Cursor.Add(time.Microsecond).Truncate(time.Minute)
		if !due.After(next.Progress.Cursor) {
			due = due.Add(time.Minute)
		}
		if len(next.Progress.Open) >= next.Asked.Backfill.MaxRunning || !due.Before(next.Asked.Backfill.To) {
			return next, nil
		}
		run := runFor(is.Order, due, jobs.CauseBackfill)
		next.Progress.Cursor, next.Progress.Made = due, next.Progress.Made+1
		next.Progress.Open = append(next.Progress.Open, ledger.OrderRun{At: due, Task: run.Task.ID})
		return next, []ledger.Opening{run}
	}
	errs := make(chan error, 5)
	for i := range 4 {
		from := []*scene{s, other}[i%2]
		go func() {
			var err error
			for k := 0; k < 60 && err == nil; k++ {
				_, err = from.makes(all[k%n], become)
				if err == nil {
					_, err = from.makes(fill, become)
				}
			}
			errs <- err
		}()
	}
	go func() {
		_, err := other.Store.CancelOrder(other.ctx(), cancelled.ID, "ann")
		if errors.Is(err, jobs.ErrConflict) {
			err = nil
		}
		errs <- err
	}()
	for range 5 {
		must(t, <-errs)
	}
	made := int64(n)
	if s.view(cancelled.ID).State == wire.OrderCancelled {
		made--
	}
	s.wantInt(made, "SELECT COUNT(*) FROM {triggers} WHERE cause='manual'")
	s.wantInt(made, "SELECT COUNT(*) FROM (SELECT DISTINCT order_id FROM {triggers} WHERE cause='manual') a")
	s.wantInt(2, "SELECT COUNT(*) FROM {triggers} WHERE cause='backfill'") // nothing has ended
	s.wantInt(2, "SELECT COUNT(*) FROM {tasks} t WHERE EXISTS (SELECT 1 FROM {triggers} g WHERE g.task_id=t.id AND g.cause='backfill')")
	if v := s.view(fill.ID).Backfill; v.Made != 2 || v.Running != 2 {
		t.Errorf("the backfill is %+v", v)
	}
}
