package judge

import (
	"fmt"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// lostLimit is how many attempts of a task may be lost before it ends.
const lostLimit = 3

// starts is I2: an attempt starts at most once, and only after a claim with its token was committed;
// a task starts once, and once more for each failure before that its retries allow, and, with on_lost:
// retry alone, for each loss before that; a due time has one task, but for those that clients asked to
// retry.
//
// No excuses, under any fault.
func (t *trial) starts() {
	type attempt struct {
		task   string
		number int
	}
	first := map[attempt]history.Effect{}
	perTask := map[string]int{}
	ends := t.earlierEnds()
	for _, e := range t.begun {
		who := fmt.Sprintf("task %s", e.TaskID)
		if e.Job != "" {
			who = fmt.Sprintf("%s@%s task %s", e.Job, e.ScheduledAt.UTC().Format("15:04:05.999"), e.TaskID)
		}
		key := attempt{e.TaskID, e.Attempt}
		if before, twice := first[key]; twice {
			t.violate(OneStart, who, e.At, "attempt %d started twice: by %s with token %d at %s, and by %s with token %d", e.Attempt,
				before.Replica, before.Token, before.At.UTC().Format("15:04:05.000"), e.Replica, e.Token)
		} else {
			first[key] = e
		}
		perTask[e.TaskID]++
		t.claimed(who, e)
		onLost, retries, known := t.policy(e.Job, e.Pool)
		if !known {
			continue // reported as unknown elsewhere
		}
		failures, losses := t.endedBefore(ends[e.TaskID], e.At)
		limit := 1 + min(failures, retries)
		if onLost == "retry" {
			limit += min(losses, lostLimit-1)
		}
		if n := perTask[e.TaskID]; n > limit && len(t.h.Audit) > 0 {
			t.violate(OneStart, who, e.At, "started %d times, after %d failures and %d losses, with on_lost %s and %d retries", n, failures, losses, onLost, retries)
		}
	}
	t.onePerDueTime()
}

// earlierEnds are the ends of attempts after which their task continued.
func (t *trial) earlierEnds() map[string][]history.Change {
	all := map[string][]history.Change{}
	for _, c := range t.h.Audit {
		if c.Table == "attempts" && c.Before == nil && c.After != nil {
			id := rowID(*c.After)
			all[id] = append(all[id], c)
		}
	}
	return all
}

// endedBefore counts the ends that were recorded before at.
func (t *trial) endedBefore(ends []history.Change, at time.Time) (failures, losses int) {
	for _, c := range ends {
		switch {
		case t.sameClock(c.Seq) && dbTime(c.At).After(at.Add(clockError)):
		case c.After.State == "lost":
			losses++
		default:
			failures++
		}
	}
	return failures, losses
}

// claimed checks the claim behind a start.
func (t *trial) claimed(who string, e history.Effect) {
	if len(t.h.Audit) == 0 {
		return // reported as vacuous
	}
	c := t.claims[claimKey{e.TaskID, e.Token}]
	switch {
	case c == nil:
		t.violate(OneStart, who, e.At, "attempt %d started by %s with token %d, and no such claim was committed", e.Attempt, e.Replica, e.Token)
	case c.row.Attempt != int64(e.Attempt) || c.row.Replica != e.Replica:
		t.violate(OneStart, who, e.At, "started as attempt %d by %s; token %d was given to attempt %d of %s",
			e.Attempt, e.Replica, e.Token, c.row.Attempt, c.row.Replica)
	case t.sameClock(c.seq) && e.At.Before(c.from.Add(-clockError)):
		t.violate(OneStart, who, e.At, "started %v before its claim", ms(c.from.Sub(e.At)))
	}
}

// onePerDueTime counts the tasks that were made for each row of the ledger.
func (t *trial) onePerDueTime() {
	type made struct {
		ids     []string
		last    time.Time
		retries int
	}
	by := map[ledgerKey]*made{}
	owner := map[string]*made{}
	for _, c := range t.h.Audit {
		if c.Table != "tasks" || c.Before != nil || c.After == nil || c.After.Job == "" {
			continue
		}
		k := keyOf(*c.After)
		if by[k] == nil {
			by[k] = &made{}
		}
		by[k].ids = append(by[k].ids, c.After.ID)
		by[k].last = dbTime(c.At)
		owner[c.After.ID] = by[k]
	}
	for _, a := range t.h.Asks {
		if a.What == "retry" && a.Answer != "refused" && owner[a.Target] != nil {
			owner[a.Target].retries++
		}
	}
	for k, m := range by {
		if len(m.ids) > 1+m.retries {
			t.violate(OneStart, subject(history.Row{Job: k.job, At: k.at, Seq: k.seq}), m.last,
				"%d tasks %v, and clients asked for %d retries", len(m.ids), m.ids, m.retries)
		}
	}
}
