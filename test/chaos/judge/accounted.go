package judge

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// settle is how long before the end a due time must lie to be asked for.
const settle = 3 * time.Second

// accounted is I1: each due time of the run is covered by exactly one row of the ledger that a schedule made,
// and there are no others; those that calendars leave out say so, and all others are decided when they start, and not before; an ended row has an outcome and, unless it ran well, a reason; only missed and
// skipped rows may stand for several due times, and count them; a late due time runs or is missed by the
// catch-up policy, see caughtUp. Edits
// of a schedule fire nothing of the past, and leave nothing out, see spells. Reasons are true, see reasons, and runs by hand were requested, see byHand.
// Rows decided before clients stopped have ended.
//
// No excuses. Due times are those of the database's clock: where that was stepped, they are expected up to the
// job's cursor, and what was delayed while it was ahead may be open. Catch-up "all" may wait for its slot while
// attempts of the job run.
func (t *trial) accounted() {
	rows := map[string][]history.Row{}
	for _, r := range t.h.Final.Triggers {
		t.report.Outcomes[cmp.Or(r.Outcome, "open")]++
		if _, known := t.jobs[r.Job]; !known {
			t.violate(Accounted, r.Job, dbTime(r.DecidedAt), "a trigger of a job that the run does not have")
			continue
		}
		t.outcome(r)
		if r.Seq == 0 {
			t.report.Triggers++
			rows[r.Job] = append(rows[r.Job], r)
		}
	}
	t.reasons()
	t.skips()
	t.byHand()
	cursors := map[string]time.Time{}
	for _, j := range t.h.Final.Jobs {
		cursors[j.Job] = dbTime(j.Cursor)
	}
	for _, job := range t.run.Jobs {
		t.caughtUp(job, rows[job.Name])
		t.covered(job, rows[job.Name], cursors[job.Name])
	}
}

func subject(r history.Row) string {
	name := r.Job + "@" + dbTime(r.At).Format("15:04:05.999")
	if r.Seq > 0 {
		name += fmt.Sprintf("/%d", r.Seq)
	}
	return name
}

func (t *trial) outcome(r history.Row) {
	at, who := dbTime(r.DecidedAt), subject(r)
	ranged := r.Until != 0 || r.Count > 1
	switch r.Outcome {
	case "":
		waits := slices.ContainsFunc(t.h.Final.Tasks, func(k history.Row) bool { return k.ID == r.TaskID && t.putOff(k) })
		if at.Before(t.quiesced()) && !waits {
			t.violate(Accounted, who, at, "decided before clients stopped, and still open (task %q)", r.TaskID)
		}
	case "ran":
		if r.TaskID == "" || r.StartedAt == 0 || r.Result == "" {
			t.violate(Accounted, who, at, "ran, with task %q, start %d and result %q", r.TaskID, r.StartedAt, r.Result)
		}
		if r.Result != "succeeded" && r.Reason == "" {
			t.violate(Accounted, who, at, "ran and %s, without a reason", r.Result)
		}
	case "lost":
		if r.Reason == "" {
			t.violate(Accounted, who, at, "lost without a reason")
		}
	case "skipped", "missed":
		if r.Reason == "" {
			t.violate(Accounted, who, at, "%s without a reason", r.Outcome)
		}
	default:
		t.violate(Accounted, who, at, "outcome %q", r.Outcome)
	}
	if ranged && (r.Outcome != "skipped" && r.Outcome != "missed" || r.Seq > 0) {
		t.violate(Accounted, who, at, "%s, and stands for %d due times", cmp.Or(r.Outcome, "open"), r.Count)
	}
	if r.Outcome != "" && r.FinishedAt == 0 && (r.Outcome == "ran" || r.Outcome == "lost") {
		t.violate(Accounted, who, at, "%s, and has no time of its end", r.Outcome)
	}
}

// covered walks through the due times of a job and its rows together, spell after spell.
func (t *trial) covered(job history.Job, rows []history.Row, cursor time.Time) {
	slices.SortFunc(rows, func(a, b history.Row) int { return cmp.Compare(a.At, b.At) })
	written, spells := t.ledgerRows(), t.spells(job)
	own := make([][]history.Row, len(spells))
	for _, r := range rows {
		row, known := written[keyOf(r)]
		i := slices.IndexFunc(spells, func(s spell) bool { return !known || s.has(row) })
		if i < 0 {
			t.violate(Accounted, subject(r), dbTime(r.DecidedAt), "missed as the schedule was edited, and there was no edit")
			continue
		}
		own[i] = append(own[i], r)
	}
	for i, spell := range spells {
		job.Due = spell.due
		t.coveredIn(job, spell, own[i], cursor)
	}
}

// coveredIn is covered for one spell.
func (t *trial) coveredIn(job history.Job, spell spell, rows []history.Row, cursor time.Time) {
	if len(job.Due) == 0 {
		for _, r := range rows {
			t.violate(Accounted, subject(r), dbTime(r.DecidedAt), "a row of a job that no configuration has")
		}
		return
	}
	want := dueNext(job.Due, spell.after)
	if spell.first {
		want = dueNext(job.Due, t.run.Began)
		if len(rows) > 0 && dbTime(rows[0].At).Before(want) {
			want = dbTime(rows[0].At) // loaded before the first replica was ready
		}
	}
	written := t.ledgerRows()
	for _, r := range rows {
		first, last := dbTime(r.At), dbTime(cmp.Or(r.Until, r.At))
		at, who := dbTime(r.DecidedAt), subject(r)
		if edited(r) {
			if spell.last || last.After(spell.ended) {
				t.violate(Accounted, who, at, "overtaken by an edit, and that was before")
			}
		}
		switch {
		case !isDue(job.Due, first) || !isDue(job.Due, last) || last.Before(first):
			t.violate(Accounted, who, at, "a row for a time that is not due")
			continue
		case first.Before(want):
			t.violate(Accounted, who, at, "covered twice: due times before %s were covered already", want.Format("15:04:05.999"))
		case first.After(want):
			t.uncovered(job, want, first.Add(-1))
		}
		if why := t.byCalendars(job, r, first, last); why != "" {
			t.violate(Accounted, who, at, "%s", why)
		}
		if start, runs := t.startOf(job, first); runs && !edited(r) && at.Before(start) && t.sameClock(written[keyOf(r)].Seq) {
			t.violate(OnTime, who, at, "decided %v before it starts", ms(start.Sub(at)))
		}
		if n := dueCount(job.Due, first, last); int64(n) != max(r.Count, 1) {
			t.violate(Accounted, who, at, "stands for %d due times and says %d", n, r.Count)
		}
		if next := dueNext(job.Due, last); next.After(want) {
			want = next
		}
	}
	until := t.ended.Add(-settle - t.run.Slack)
	switch {
	case !spell.last:
		if !want.IsZero() && !want.After(spell.until) { // also what was to start later, or to be left out
			t.uncovered(job, want, spell.until)
		}
		return
	case t.steps() || job.CatchUp == "all" && cursor.Before(until) && t.busy(job, until):
		until = cursor
	}
	if owed := t.owed(job, want, until); !owed.IsZero() {
		t.uncovered(job, owed, until)
	}
}

// uncovered reports due times without a row.
func (t *trial) uncovered(job history.Job, first, last time.Time) {
	t.violate(Accounted, job.Name+"@"+first.Format("15:04:05.999"), first,
		"no row for %d due times up to %s", dueCount(job.Due, first, last), last.Format("15:04:05.999"))
}

// busy reports whether a job's slot was in use shortly before until: a catch-up that waits for its slot is
// tried each second.
func (t *trial) busy(job history.Job, until time.Time) bool {
	from := until.Add(-job.Takes - 5*time.Second - t.run.Slack)
	return slices.ContainsFunc(t.begun, func(e history.Effect) bool { return e.Job == job.Name && e.At.After(from) })
}
