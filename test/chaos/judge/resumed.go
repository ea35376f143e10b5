package judge

import (
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// resumed is the part of I9 that holds after a step of the database's clock: when it is right again, jobs that
// are due each second start again within the recovery time, by the handlers' own clock. Decisions made while it
// was ahead are not repeated, so after a step ahead that is counted from the time that it showed.
//
// Not checked is a step that another fault follows too early, and one of a run of format 0, which does not have
// its size.
func (t *trial) resumed() {
	starts := t.eachSecond()
	if len(starts) == 0 || t.run.Format == 0 {
		return
	}
	shown := time.Time{} // the latest time up to which the database may have taken things for due
	faults := t.faults()
	for i, w := range faults {
		if !w.Applied || !has(w, history.StoreClock) {
			continue
		}
		shown = maxTime(shown, w.Healed.Add(max(w.Ahead, 0)))
		by, until := shown.Add(t.recovery(w)), t.run.Quiesced
		if i+1 < len(faults) {
			until = faults[i+1].Began
		}
		if by.After(until) {
			continue
		}
		if !slices.ContainsFunc(starts, func(e history.Effect) bool { return e.ScheduledAt.After(shown) && !e.At.After(by) }) {
			t.violate(Recovers, windowName(w), by, "no job of every second has started again %v after the database's clock was right", ms(by.Sub(w.Healed)))
		}
	}
}

// eachSecond are the starts of jobs that are due each second, but for those that clients asked for.
func (t *trial) eachSecond() []history.Effect {
	byHand := map[string]bool{}
	for _, r := range t.h.Final.Triggers {
		if r.Seq > 0 {
			byHand[r.TaskID] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(t.begun), func(e history.Effect) bool {
		often := slices.ContainsFunc(t.jobs[e.Job].Due, func(d history.Every) bool { return d.Period > 0 && d.Period <= time.Second })
		return !often || byHand[e.TaskID]
	})
}
