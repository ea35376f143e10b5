package store

import "testing"

// A replica finds tasks of dead sessions, and another replica reaps them before it does: what is pending again by then
// stays so, and what a live replica has claimed by then goes on.
func TestAReaperComesLate(t *testing.T) {
	eachDuel(t, func(d *duel) {
		dead := d.join("dead")
		d.enqueue("p")
		d.enqueue("p")
		claim := func(session string, n int) {
			if got := d.claim(d.fast, session, "p", n); len(got) != n {
				d.t.Fatalf("claimed %d of %d", len(got), n)
			}
		}
		claim(dead, 2)
		d.check(d.fast.Sides().Replica.Leave(d.t.Context(), dead))
		begins := &attentive{Dialect: d.late.db.Dialect, before: func(n int) {
			if n > 1 {
				return
			}
			reaped, err := d.fast.Sides().Replica.Reap(d.t.Context(), 9)
			d.check(err)
			if len(reaped) != 2 {
				d.t.Errorf("the other one reaped %d", len(reaped))
			}
			claim(d.two, 1)
		}}
		d.late.db.Dialect = begins
		reaped, err := d.late.Sides().Replica.Reap(d.t.Context(), 9)
		if err != nil || len(reaped) > 0 || begins.begins == 0 {
			d.t.Errorf("reaped %+v in %d transactions, %v", reaped, begins.begins, err)
		}
		if n := text(d.t, d.late, `SELECT COUNT(*) FROM {tasks} WHERE state=2 AND session_id='`+d.two+`' AND token=2 AND losses=1`); n != "1" {
			d.t.Errorf("%s tasks of the living one run", n)
		}
		if n := text(d.t, d.late, `SELECT COUNT(*) FROM {tasks} WHERE state=0 AND losses=1`); n != "1" {
			d.t.Errorf("%s tasks are ready", n)
		}
	})
}
