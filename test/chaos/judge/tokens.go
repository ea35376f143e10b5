package judge

import (
	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// tokens is I4: the claims of a job, and those of a task that belongs to none, carry larger and
// larger tokens in the order in which they were committed. A job's fence and cursor never move back.
//
// No excuses: neither what a lock service forgot nor anybody's clock has a part in tokens.
func (t *trial) tokens() {
	last := map[string]history.Row{}
	for _, c := range t.ordered {
		who := c.row.Job
		if who == "" {
			who = "task " + c.row.ID
		}
		if l, seen := last[who]; seen && c.row.Token <= l.Token {
			t.violate(Tokens, who, c.from, "task %s was claimed with token %d after token %d for task %s", c.row.ID, c.row.Token, l.Token, l.ID)
		}
		last[who] = c.row
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
