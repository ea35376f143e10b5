package judge

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// eventful is the seed of a run in which the replica that is killed has a job's command, and a task
// of a client that starts again.
const eventful = 23

// Where things are in a run of the model.

func firstTrigger(h *history.History, job string, outcomes ...string) int {
	return slices.IndexFunc(h.Final.Triggers, func(r history.Row) bool {
		return r.Job == job && slices.Contains(outcomes, r.Outcome) && dbTime(r.At).After(began)
	})
}

func firstEffect(h *history.History, what, job string) int {
	return slices.IndexFunc(h.Effects, func(e history.Effect) bool {
		return e.What == what && (e.Job == job && e.At.After(began) || job == "once pool" && e.Pool == "once")
	})
}

// firstChange is the first insert of a row of the table.
func firstChange(h *history.History, table, job string) int {
	return slices.IndexFunc(h.Audit, func(c history.Change) bool {
		return c.Table == table && c.Before == nil && c.After.Job == job && dbTime(c.At).After(began)
	})
}

// changes are where the changes of a table are.
func changes(h *history.History, table string) (all []int) {
	for i, c := range h.Audit {
		if c.Table == table {
			all = append(all, i)
		}
	}
	return all
}

// claims are the rows of a job's tasks as they began to run.
func claims(h *history.History, job string) (all []history.Row) {
	for _, c := range h.Audit {
		if c.Table == "tasks" && c.After != nil && c.After.State == running && (c.Before == nil || c.Before.State != running) && c.After.Job == job {
			all = append(all, *c.After)
		}
	}
	return all
}

// setToken gives a task another token everywhere.
func setToken(h *history.History, id string, from, to int64) {
	set := func(r *history.Row) {
		if r != nil && r.ID == id && r.Token == from {
			r.Token = to
		}
	}
	for i := range h.Audit {
		set(h.Audit[i].Before)
		set(h.Audit[i].After)
	}
	for i := range h.Final.Done {
		set(&h.Final.Done[i])
	}
	for _, i := range changes(h, "outputs") {
		if o := h.Audit[i].After; o.TaskID == id {
			o.Output = fmt.Sprintf("token %d\n", to)
		}
	}
	for i, c := range h.Audit {
		if c.Table == "done" && c.After.ID == id { // the lane of the targets is another promise
			h.Audit[i].After.State = "failed"
		}
	}
	for i := range h.Effects {
		if h.Effects[i].TaskID == id && h.Effects[i].Token == from {
			h.Effects[i].Token = to
		}
	}
	h.Effects = slices.DeleteFunc(h.Effects, func(e history.Effect) bool { return e.What == history.Fenced && e.TaskID == id })
}

// firstLost is a task that ended with the replica that was killed.
func firstLost(h *history.History) string {
	return h.Final.Done[slices.IndexFunc(h.Final.Done, func(r history.Row) bool { return r.State == "lost" })].ID
}

// lastOf is the last task that ended in a pool.
func lastOf(h *history.History, pool string) (id string) {
	for _, r := range h.Final.Done {
		if r.Pool == pool {
			id = r.ID
		}
	}
	return id
}

// drained is the end of a replica that no fault struck.
func drained(h *history.History) *history.Process {
	return &h.Processes[slices.IndexFunc(h.Processes, func(p history.Process) bool {
		return p.How == "drained" && !slices.Contains(h.Windows[0].Replicas, p.Replica)
	})]
}

// none lets a replica have nothing.
func none(h *history.History, replica string) {
	other := h.Windows[0].Replicas[0]
	for i := range h.Audit {
		for _, r := range []*history.Row{h.Audit[i].Before, h.Audit[i].After} {
			if r != nil && r.Replica == replica {
				r.Replica = other
			}
		}
	}
	for i := range h.Effects {
		if h.Effects[i].Replica == replica {
			h.Effects[i].Replica = other
		}
	}
	for i := range h.Final.Triggers {
		r := &h.Final.Triggers[i]
		r.Reason = strings.Replace(r.Reason, " on replica "+replica+" ", " on replica "+other+" ", 1)
	}
}

// withoutStore makes the fault one of the store, which is away from a replica that does nothing.
func withoutStore(h *history.History) {
	h.Windows[0].Kinds = append(h.Windows[0].Kinds, history.StoreDown)
	h.Processes = nil
}

// dies expires a session so long after its last heartbeat, before the fault.
func dies(h *history.History, quiet time.Duration) {
	last := began.Add(5 * time.Second)
	mute(h, other(h), last, last.Add(quiet+time.Second))
	was := history.Row{ID: "s", Replica: other(h), Beat: 7}
	beat, dead := was, was
	beat.Beat, dead.Beat, dead.Dead = 8, 8, 1
	h.Audit = append(h.Audit,
		history.Change{Seq: 1 << 40, At: last.UnixMicro(), Table: "sessions", Before: &was, After: &beat},
		history.Change{Seq: 1<<40 + 1, At: last.Add(quiet).UnixMicro(), Table: "sessions", Before: &beat, After: &dead})
}

// mute takes away the beats of a replica (empty: of all) between two moments.
func mute(h *history.History, replica string, from, to time.Time) {
	h.Audit = slices.DeleteFunc(h.Audit, func(c history.Change) bool {
		return c.Table == "sessions" && c.Before != nil && (replica == "" || c.After.Replica == replica) && dbTime(c.At).After(from) && dbTime(c.At).Before(to)
	})
}

// lastSkipped is the last trigger of a job that was skipped.
func lastSkipped(h *history.History, job string) (last int) {
	for i, r := range h.Final.Triggers {
		if r.Job == job && r.Outcome == "skipped" {
			last = i
		}
	}
	return last
}

// orphanOf expires the session of a task of the pool, and its command goes on for so long
// after the session's last beat.
func orphanOf(h *history.History, pool string, lives time.Duration) {
	h.Run.Slack = 0
	i := slices.IndexFunc(h.Effects, func(e history.Effect) bool { return e.What == history.Start && e.Pool == pool && e.At.After(began) })
	e := h.Effects[i]
	session := ""
	for _, c := range h.Audit {
		if c.Table == "tasks" && c.After != nil && c.After.ID == e.TaskID && c.After.Token == e.Token {
			session = c.After.Session
		}
	}
	row := history.Row{ID: session, Replica: e.Replica, Beat: 1}
	beat, dead := row, row
	beat.Beat, dead.Beat, dead.Dead = 2, 2, 1
	h.Audit = append(h.Audit,
		history.Change{Seq: 1 << 40, At: e.At.UnixMicro(), Table: "sessions", Before: &row, After: &beat},
		history.Change{Seq: 1<<40 + 1, At: e.At.Add(3 * time.Second).UnixMicro(), Table: "sessions", Before: &beat, After: &dead})
	last := e
	last.What, last.At = history.Beat, e.At.Add(lives)
	h.Effects = append(h.Effects, last)
	h.Windows[0].Began, h.Windows[0].Replicas, h.Windows[0].Kinds = began, nil, append(h.Windows[0].Kinds, history.ReplicaFrozen)
}
