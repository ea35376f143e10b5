package judge

import (
	"fmt"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// works reports whether a replica has a command that runs.
func (m *model) works(replica string) bool {
	for _, t := range m.tasks {
		if t.row.State == running && t.row.Replica == replica && t.begun && m.lane(t.row) == "exec" && m.now.Before(t.ends) {
			return true
		}
	}
	return false
}

// aside are the events beside the work: stale writes, and locks of others.
func (m *model) aside() {
	if m.now.Sub(m.h.Run.Began)%time.Second != 0 {
		return
	}
	for _, what := range []string{"finish", "handback", "extend", "report", "beat", "release"} {
		m.h.Stale = append(m.h.Stale, history.Stale{At: m.now, What: what, TaskID: "t1", Token: 1, Refused: true})
	}
	m.h.Holds = append(m.h.Holds, history.Hold{At: m.now, Holder: "a", Key: "uplink", Token: 7})
	m.h.Waits = append(m.h.Waits, history.Wait{
		Waiter: "b.0.0", Beside: "b", Key: "turn", Kind: 1, Asked: m.now, Queued: m.now.Add(time.Millisecond), Ended: m.now.Add(tick), Token: int64(len(m.h.Waits)) + 1,
	})
}

// execs is a run of "locks exec" every five seconds, each fourth of which is killed while its command works.
func (m *model) execs() {
	since := m.now.Sub(m.h.Run.Began)
	if since%(5*time.Second) != 0 {
		return
	}
	n := len(m.h.Execs)
	e := history.Exec{
		Name: fmt.Sprint("c.", n), Beside: "c", Key: "ledger", Wait: 5 * time.Second, How: history.ExecEnded,
		Began: m.now.Add(-tick), Ended: m.now.Add(3 * tick),
	}
	said := []string{history.Start, history.Beat, history.End}
	if n%4 == 3 {
		e.How, e.Struck, e.Exit = history.ExecKilled, m.now.Add(tick+tick/2), -1
		said[2] = history.Beat
	}
	for i, what := range said {
		m.h.Locked = append(m.h.Locked, history.Locked{What: what, At: m.now.Add(time.Duration(i) * tick), Exec: e.Name, Key: "user/ledger", Token: int64(10 * (n + 1))})
	}
	m.h.Execs = append(m.h.Execs, e)
}

// byHand is one of each call of clients; some have no effect.
func (m *model) byHand() {
	ask := func(what, target string, ids ...string) {
		m.h.Asks = append(m.h.Asks, history.Ask{
			What: what, Target: target, Called: m.now, Returned: m.now.Add(time.Millisecond), Answer: "ok", Status: 200, TaskIDs: ids, Replica: "a",
		})
	}
	first := m.h.Final.Done[slices.IndexFunc(m.h.Final.Done, func(r history.Row) bool { return r.Pool == "once" })]
	ask("run", "again", m.run("again"))
	ask("retry", first.ID, m.retry(first))
	ask("cancel", first.ID)
	ask("cancel many", "once", first.ID)
	ask("retry many", "once")
	ask("limit", "mail") // to what it was
	ask("pause", "mail")
	ask("resume", "mail")
	ask("suspend", "slow")
	m.now = m.now.Add(time.Millisecond)
	ask("resume", "slow")
	m.now = m.now.Add(-time.Millisecond)
}

// run runs a job that excludes nothing.
func (m *model) run(job string) string {
	m.fence[job]++
	g := history.Row{
		Job: job, At: m.now.UnixMicro(), Seq: 1, Count: 1, Cause: "manual", Replica: "a", DecidedAt: m.now.UnixMicro(), StartedAt: m.now.UnixMicro(), TaskID: m.id(),
	}
	t := &task{row: history.Row{
		ID: g.TaskID, Job: job, Pool: "default", At: g.At, Seq: 1, State: running, Attempt: 1, Token: m.fence[job],
		Session: m.session["a"], Replica: "a", CreatedAt: g.DecidedAt, StartedAt: g.DecidedAt,
	}}
	m.tasks[g.TaskID] = t
	m.change("tasks", nil, &t.row)
	m.starts(t, 500*time.Millisecond)
	m.h.Final.Triggers = append(m.h.Final.Triggers, g)
	m.change("triggers", nil, &g)
	return g.TaskID
}

// retry makes a new task of one that has ended.
func (m *model) retry(of history.Row) string {
	t := &task{row: history.Row{ID: m.id(), Pool: of.Pool, State: "ready", RetryOf: of.ID, CreatedAt: m.now.UnixMicro()}}
	m.tasks[t.row.ID] = t
	m.change("tasks", nil, &t.row)
	return t.row.ID
}
