package ledger

import (
	"encoding/json"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// Overtaken is a job whose schedule is replaced, or that is removed, with what its row knows of due times that were not decided.
type Overtaken struct {
	Job        string
	Definition json.RawMessage // that governed, as Definitions.Shown gave it; nil: unknown
	Suspension Suspension      // as it was set
	Cursor     time.Time       // all due times up to here are decided
	Due        time.Time       // the next one that is to be decided, see Undecided; zero: none
	Now        time.Time       // of the edit: all due times up to here get a row
	Removed    bool
}

// Pending reports whether a due time was to be decided by now.
func (o Overtaken) Pending() bool { return !o.Due.IsZero() && !o.Due.After(o.Now) }

// Row is the row of due times that the edit leaves undecided.
func (o Overtaken) Row(first, last time.Time, count int) jobs.Trigger {
	g := jobs.Trigger{
		Job: o.Job, At: first, Count: count, Cause: jobs.CauseSchedule, Outcome: jobs.Missed, DecidedAt: o.Now,
		Reason: ReasonEdited, ReasonCode: reason.ScheduleChanged,
	}
	if o.Removed {
		g.Reason, g.ReasonCode = ReasonRemoved, reason.JobRemoved
	}
	if count > 1 {
		g.Until = last
	}
	return g
}

// Overtaken returns the rows, in order, of all due times after o.Cursor, up to and including o.Now. Without OvertakenBy, or where that does not know the
// definition, there is one for o.Due at most: how many more there were is unknown then.
func (d Definitions) Overtaken(o Overtaken) []jobs.Trigger {
	if !o.Now.After(o.Cursor) {
		return nil
	}
	if d.OvertakenBy != nil {
		if rows, known := d.OvertakenBy(o); known {
			return rows
		}
	}
	if !o.Pending() {
		return nil
	}
	row := o.Row(o.Due, o.Due, 1)
	row.Reason += ", and what else was due until then"
	return []jobs.Trigger{row}
}
