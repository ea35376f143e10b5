package judge

import (
	"maps"
	"slices"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// codeSkip is the code of due times that a client has skipped before they were due.
const codeSkip = "skip_next"

// skips is the part of I1 about due times that clients skip before they are due: as many of the next ones are skipped as a client has asked for last, whatever would have become of
// them otherwise, and no others. What calendars leave out does not count.
//
// The number is in the job's row, which a decision writes last, so the audit has the decisions one after the other.
//
// No excuses.
func (t *trial) skips() {
	all := map[string]*skipping{}
	for _, c := range t.h.Audit {
		r := changed(c)
		if t.jobs[r.Job].Name == "" || c.Table != "triggers" && c.Table != "jobs" {
			continue
		}
		if all[r.Job] == nil {
			all[r.Job] = &skipping{}
		}
		s := all[r.Job]
		switch {
		case c.Table == "triggers" && (c.Before != nil || c.After == nil || r.Seq > 0 || r.Code == codeCalendar || edited(*r)):
		case c.Table == "triggers" && r.Code == codeSkip:
			s.taken += max(r.Count, 1)
			if s.taken > s.left {
				t.violate(Accounted, subject(*r), dbTime(c.At), "skipped by hand, and %d were to be", s.left)
			}
		case c.Table == "triggers" && s.taken < s.left:
			t.violate(Accounted, subject(*r), dbTime(c.At), "decided as any other, and %d more were to be skipped by hand", s.left-s.taken)
		case c.Table == "jobs" && c.After != nil:
			t.skipped(s, c)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if s := all[name]; s.taken > 0 {
			t.violate(Accounted, name, t.run.Ended, "%d due times were skipped by hand, and its row does not have them", s.taken)
		}
	}
}

// skipping is how many due times of a job are to be skipped by hand, while the audit is read.
type skipping struct {
	left  int64
	taken int64 // of these, in the present transaction
}

// skipped reads the number from the row of a job, at the end of a transaction.
func (t *trial) skipped(s *skipping, c history.Change) {
	is := c.After.SkipNext
	switch at := dbTime(c.At); {
	case s.taken > 0 && is != s.left-s.taken:
		t.violate(Accounted, c.After.Job, at, "%d of %d due times were skipped by hand, and %d are left", s.taken, s.left, is)
	case s.taken == 0 && is != s.left && !t.mayHaveSkipped(c):
		t.violate(Accounted, c.After.Job, at, "%d due times are to be skipped in place of %d, and no client asked for it", is, s.left)
	}
	s.left, s.taken = is, 0
}

// mayHaveSkipped reports whether a client has asked for the number that a row has.
func (t *trial) mayHaveSkipped(c history.Change) bool {
	for _, answer := range []string{"ok", "unknown"} {
		all := t.calls("skip", answer)
		all.asks = slices.DeleteFunc(all.asks, func(a history.Ask) bool { return int64(a.N) != c.After.SkipNext })
		if all.may(c.After.Job, dbTime(c.At), t.sameClock(c.Seq)) {
			return true
		}
	}
	return false
}
