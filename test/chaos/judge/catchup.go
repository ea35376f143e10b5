package judge

import (
	"cmp"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// catchUpLimit is how many due times "all" runs in one decision, in a job without a limit.
const catchUpLimit = 10

// caughtUp is the part of I1 that checks late due times against the job's policy. One beyond the window may be
// missed. "none" catches up nothing; with "latest" each missed one has a later one of the same decision that
// stands for it, and only the last of a decision may be late itself; with "all" none is missed but those before
// the latest ones that the limit allows. What calendars leave out, and edits overtake, is not among them, and with jitter a due time is late after its start.
func (t *trial) caughtUp(job history.Job, rows []history.Row) {
	stands := map[int64]int64{} // by the time of a decision, the latest due time of it that was not missed
	rows = slices.DeleteFunc(slices.Clone(rows), func(r history.Row) bool { return r.Code == codeCalendar || r.Code == codeSkip || edited(r) })
	for _, r := range rows {
		if r.Outcome != "missed" {
			stands[r.DecidedAt] = max(stands[r.DecidedAt], r.At)
		}
	}
	for _, r := range rows {
		last, decided := dbTime(cmp.Or(r.Until, r.At)), dbTime(r.DecidedAt)
		late := decided.Sub(last)
		if start, runs := t.startOf(job, last); runs {
			late = decided.Sub(start)
		}
		missed := r.Outcome == "missed"
		beyond := job.Window > 0 && late > job.Window
		switch {
		case missed && job.Grace > 0 && late < job.Grace:
			t.violate(Accounted, subject(r), decided, "missed, though decided %v after it was due, within the grace of %v", ms(late), job.Grace)
		case missed && beyond, job.Grace <= 0, !missed && r.Reason == "suspended":
		case job.CatchUp == "none" && r.Outcome == "ran" && late > job.Grace+clockError:
			t.violate(Accounted, subject(r), decided, "ran, decided %v after it was due, with catch-up none and a grace of %v", ms(late), job.Grace)
		case job.CatchUp == "latest" && missed && stands[r.DecidedAt] <= last.UnixMicro():
			t.violate(Accounted, subject(r), decided, "missed %v after it was due, with catch-up latest, and nothing stands for it", ms(late))
		case job.CatchUp == "latest" && !missed && late > job.Grace+clockError && stands[r.DecidedAt] > r.At:
			t.violate(Accounted, subject(r), decided, "made up for %v after it was due, with catch-up latest, and a later one stands for it", ms(late))
		case job.CatchUp == "all" && missed:
			t.unlimited(job, r, last, decided)
		}
	}
}

// unlimited checks the due times that the limit of "all" preferred to a missed one.
func (t *trial) unlimited(job history.Job, r history.Row, last, decided time.Time) {
	limit := cmp.Or(job.Limit, catchUpLimit)
	if n := dueCount(job.Due, last.Add(1), decided.Add(-job.Grace-1)); n < limit {
		t.violate(Accounted, subject(r), decided, "missed %v after it was due, with catch-up all, and %d of %d later ones were to be made up for",
			ms(decided.Sub(last)), n, limit)
	}
}
