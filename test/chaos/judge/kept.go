package judge

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// words is the first line of every handler.
var words = regexp.MustCompile(`(?m)^token (\d+)$`)

// arrived ends the output of a lost attempt, which is what had arrived of it.
const arrived = "\n[lost: what was written after this did not arrive]\n"

// outputs is the part of I7 about outputs: an output is that of an attempt that ended, by the token in it, and
// does not change, but for what had arrived of a lost attempt: its own late output takes the place of that.
//
// No excuses.
func (t *trial) outputs() {
	if t.run.Format < 2 {
		return // its audit does not have them
	}
	type attempt struct {
		task   string
		number int64
	}
	tokens := map[attempt]int64{} // of those that ended
	own := map[string]bool{}      // tasks of the scheduler: their handler is not of the run
	for _, c := range t.h.Audit {
		if c.Table == "tasks" && c.After != nil && c.After.Pool == notifications {
			own[c.After.ID] = true
		}
		if c.Before != nil || c.After == nil {
			continue
		}
		// A task that is cancelled while it waits has the number of the attempt before, and has had tokens
		// since.
		if c.Table == "done" && c.After.StartedAt != 0 || c.Table == "attempts" {
			tokens[attempt{rowID(*c.After), c.After.Attempt}] = c.After.Token
		}
	}
	for _, c := range t.h.Audit {
		if c.Table != "outputs" {
			continue
		}
		o := changed(c)
		token, ended := tokens[attempt{o.TaskID, o.Attempt}]
		said := words.FindStringSubmatch(o.Output)
		switch {
		case c.Before != nil && (c.After == nil || !strings.HasSuffix(c.Before.Output, arrived) || strings.HasSuffix(c.After.Output, arrived)):
			t.violate(OneEnd, "task "+o.TaskID, dbTime(c.At), "the output of attempt %d was changed after it had ended", o.Attempt)
		case !ended:
			t.violate(OneEnd, "task "+o.TaskID, dbTime(c.At), "an output of attempt %d, which did not end", o.Attempt)
		case own[o.TaskID]:
		case said == nil:
			t.violate(OneEnd, "task "+o.TaskID, dbTime(c.At), "the output of attempt %d is not what its handler says first: %.40q", o.Attempt, o.Output)
		case said[1] != strconv.FormatInt(token, 10):
			t.violate(OneEnd, "task "+o.TaskID, dbTime(c.At), "attempt %d with token %d has the output of token %s", o.Attempt, token, said[1])
		}
	}
}

// keys is the part of I6 about idempotency keys: each is given to the task that was made with it, and stays
// with that.
//
// No excuses.
func (t *trial) keys(rows map[string]history.Row) {
	if t.run.Format < 2 {
		return // its audit does not have them
	}
	given := map[string]bool{} // tasks that have theirs
	for _, c := range t.h.Audit {
		if c.Table != "idempotency" {
			continue
		}
		k := changed(c)
		of := rows[k.TaskID]
		switch {
		case c.Before != nil:
			t.violate(Conserved, "key "+k.IdemKey, dbTime(c.At), "taken from task %s, which is there", c.Before.TaskID)
		case of.IdemKey != k.IdemKey || of.Pool != k.Pool:
			t.violate(Conserved, "key "+k.IdemKey, dbTime(c.At), "of pool %s, given to task %q, which has key %q in pool %q", k.Pool, k.TaskID, of.IdemKey, of.Pool)
		}
		given[k.TaskID] = true
	}
	for _, id := range slices.Sorted(maps.Keys(rows)) {
		r := rows[id]
		if r.Job == "" && r.IdemKey != "" && r.Pool != notifications && !given[id] {
			t.violate(Conserved, "key "+r.IdemKey, dbTime(r.CreatedAt), "it is not kept for task %s", id)
		}
	}
}

// kept counts what the two above had to look at.
func (t *trial) kept() []figure {
	if t.run.Format < 2 {
		return nil
	}
	n := map[string]int{}
	for _, c := range t.h.Audit {
		n[c.Table]++
	}
	return []figure{{"outputs in the audit", n["outputs"], 1}, {"idempotency keys in the audit", n["idempotency"], 1}}
}
