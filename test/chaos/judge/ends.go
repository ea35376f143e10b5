package judge

import (
	"fmt"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// ends is I7: a task ends once, in the transaction that removes it from the open ones; the ends of tasks and
// triggers never change, but that the own result of a lost attempt replaces "lost" once; rows move only along
// the allowed ways; and what is recorded as done was done, by the output of its handler. See outputs and cancelled, too.
//
// No excuses.
func (t *trial) ends() {
	ended, updates := map[string]int{}, map[string]bool{}
	for _, a := range t.h.Asks {
		if a.What == "update" && a.Answer != "refused" {
			updates[a.Target] = true
		}
	}
	for _, c := range t.h.Audit {
		switch c.Table {
		case "tasks":
			if why := t.taskMove(c, ended, updates); why != "" {
				t.violate(OneEnd, "task "+changed(c).ID, dbTime(c.At), "%s", why)
			}
		case "done":
			if c.Before == nil && c.After != nil {
				ended[c.After.ID]++
			}
			if why := doneMove(c, ended); why != "" {
				t.violate(OneEnd, "task "+changed(c).ID, dbTime(c.At), "%s", why)
			}
		case "triggers":
			if why := triggerMove(c); why != "" {
				t.violate(OneEnd, subject(*changed(c)), dbTime(c.At), "%s", why)
			}
		case "attempts":
			if c.Before != nil {
				t.violate(OneEnd, "task "+rowID(*c.Before), dbTime(c.At), "attempt %d was changed after it had ended", c.Before.Attempt)
			}
		}
	}
	t.outputs()
	t.cancelled()
	t.trueSuccess()
}

func changed(c history.Change) *history.Row {
	if c.After != nil {
		return c.After
	}
	return c.Before
}

// taskMove returns what is wrong with a change of a task that has not ended. Those that somebody asked to change while they were pending may
// have a larger token after that.
func (t *trial) taskMove(c history.Change, ended map[string]int, updates map[string]bool) string {
	b, a := c.Before, c.After
	switch {
	case b == nil && a.State == running && (a.Token < 1 || a.Attempt != 1 || a.Session == ""):
		return fmt.Sprintf("born running with token %d, attempt %d, session %q", a.Token, a.Attempt, a.Session)
	case b == nil && ended[a.ID] > 0:
		return "pending or running again after its end"
	case b == nil:
		return ""
	case a == nil && ended[b.ID] == 0:
		return fmt.Sprintf("%s, and deleted without an end", b.State)
	case a == nil:
		return ""
	case a.Token < b.Token:
		return fmt.Sprintf("token from %d back to %d", b.Token, a.Token)
	}
	switch move := b.State + " → " + a.State; move {
	case "ready → running", "locked → running", "keyed → running":
		if a.Token <= b.Token || a.Attempt != b.Attempt+1 || a.Session == "" {
			return fmt.Sprintf("%s with token %d after %d, attempt %d after %d, session %q", move, a.Token, b.Token, a.Attempt, b.Attempt, a.Session)
		}
	case "running → running":
		if a.Token != b.Token || a.Session != b.Session || a.Attempt != b.Attempt {
			return fmt.Sprintf("%s: from token %d of %s to token %d of %s", move, b.Token, b.Replica, a.Token, a.Replica)
		}
		if a.Until < b.Until {
			return fmt.Sprintf("may run %v less than before", time.Duration(b.Until-a.Until)*time.Microsecond)
		}
	case "running → ready", "running → waits", "ready → waits", "waits → ready", "ready → ready", "waits → waits",
		"ready → locked", "locked → ready", "locked → locked",
		"ready → keyed", "keyed → ready", "keyed → keyed",
		"queued → ready":
		if a.Token != b.Token && (b.State == running || !updates[a.ID]) || a.Session != "" {
			return fmt.Sprintf("%s with token %d after %d, session %q", move, a.Token, b.Token, a.Session)
		}
	default:
		return move
	}
	return ""
}

// retried reports whether a change of an ended task says that it was retried, and nothing else.
func retried(b, a history.Row) bool {
	if a.RetriedAs == "" || a.RetriedAs == b.RetriedAs {
		return false
	}
	b.RetriedAs = a.RetriedAs
	return b == a
}

func doneMove(c history.Change, ended map[string]int) string {
	b, a := c.Before, c.After
	switch {
	case b != nil && a != nil && retried(*b, *a):
		return ""
	case b == nil && ended[a.ID] > 1:
		return fmt.Sprintf("ended again, as %s", a.State)
	case b == nil:
		switch a.State {
		case "succeeded", "failed", "lost", "cancelled":
			return ""
		}
		return fmt.Sprintf("ended as %q", a.State)
	case a == nil:
		return fmt.Sprintf("%s, and then deleted", b.State)
	case b.State == "lost" && b.Late == 0 && a.Late == 1 && a.Token == b.Token:
		return ""
	}
	return fmt.Sprintf("from %s with token %d to %s with token %d, after its end", b.State, b.Token, a.State, a.Token)
}

func triggerMove(c history.Change) string {
	b, a := c.Before, c.After
	switch {
	case b == nil:
		return ""
	case a == nil:
		return "deleted"
	case b.Outcome == "", b.Outcome == "lost" && a.Outcome == "ran":
		return ""
	case b.Outcome != a.Outcome || b.Result != a.Result || b.FinishedAt != a.FinishedAt || b.Count != a.Count || b.Until != a.Until:
		return fmt.Sprintf("from %s %s to %s %s, after its end", b.Outcome, b.Result, a.Outcome, a.Result)
	}
	return ""
}

// trueSuccess compares tasks recorded as succeeded, and when, with the handlers.
func (t *trial) trueSuccess() {
	done := map[claimKey]time.Time{}
	for _, e := range t.h.Effects {
		if e.What == history.End && !e.Fails || (e.What == history.Open || e.What == history.Fenced) && !e.Refused && !e.Fails {
			done[claimKey{e.TaskID, e.Token}] = e.At
		}
	}
	for _, c := range t.h.Audit {
		if c.Table != "done" || c.After == nil || c.After.State != "succeeded" {
			continue
		}
		r := *c.After
		lane := t.pools[r.Pool].Lane
		if r.Job != "" {
			lane = t.jobs[r.Job].Lane
		}
		at, is := done[claimKey{r.ID, r.Token}]
		switch {
		case lane == "":
		case !is:
			t.violate(OneEnd, "task "+r.ID, dbTime(c.At), "succeeded with token %d, and no handler has done it", r.Token)
		case t.sameClock(c.Seq) && dbTime(c.At).Before(at.Add(-clockError)):
			t.violate(OneEnd, "task "+r.ID, dbTime(c.At), "succeeded with token %d, %v before its handler ended", r.Token, ms(at.Sub(dbTime(c.At))))
		}
	}
}
