package judge

import (
	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// lineage is the last two claims of a job. One claim may take several of its tasks, and writes them in the order of
// their ids, while their tokens follow the order in which they were due.
type lineage struct{ before, latest []history.Row }

// add returns a claim that should have come after row's.
func (l *lineage) add(row history.Row) (earlier history.Row, wrong bool) {
	together := func(r history.Row) bool {
		return r.Session == row.Session && r.StartedAt == row.StartedAt && r.ID != row.ID
	}
	if len(l.latest) > 0 && !together(l.latest[0]) {
		l.before, l.latest = l.latest, nil
	}
	for _, r := range l.before {
		if r.Token >= row.Token {
			earlier, wrong = r, true
		}
	}
	for _, r := range l.latest {
		if r.Token == row.Token {
			earlier, wrong = r, true
		}
	}
	l.latest = append(l.latest, row)
	return earlier, wrong
}

// tokens is I4: the claims of a job, and those of a task that belongs to none, carry larger and larger tokens
// in the order in which they were committed. A job's fence and cursor never move back.
//
// No excuses: tokens depend neither on a lock service nor on a clock.
func (t *trial) tokens() {
	last := map[string]*lineage{}
	for _, c := range t.ordered {
		who := c.row.Job
		if who == "" {
			who = "task " + c.row.ID
		}
		if last[who] == nil {
			last[who] = &lineage{}
		}
		if l, after := last[who].add(c.row); after {
			t.violate(Tokens, who, c.from, "task %s was claimed with token %d after token %d for task %s", c.row.ID, c.row.Token, l.Token, l.ID)
		}
		if c.row.Token < 1 {
			t.violate(Tokens, who, c.from, "task %s was claimed with token %d", c.row.ID, c.row.Token)
		}
	}
	for _, c := range t.h.Audit {
		if c.Table != "jobs" || c.Before == nil || c.After == nil {
			continue
		}
		if c.After.Fence < c.Before.Fence {
			t.violate(Tokens, c.After.Job, dbTime(c.At), "fence from %d back to %d", c.Before.Fence, c.After.Fence)
		}
		if c.After.Cursor < c.Before.Cursor {
			t.violate(Tokens, c.After.Job, dbTime(c.At), "cursor from %v back to %v", dbTime(c.Before.Cursor), dbTime(c.After.Cursor))
		}
	}
}
