package judge

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// Lateness is how long after they were due triggers were started, or decided if they did not start.
type Lateness struct {
	N             int
	P50, P99, Max time.Duration
}

func (l Lateness) String() string {
	return fmt.Sprintf("p50 %v, p99 %v, max %v of %d", ms(l.P50), ms(l.P99), ms(l.Max), l.N)
}

func latenessOf(all []time.Duration) Lateness {
	if len(all) == 0 {
		return Lateness{}
	}
	slices.Sort(all)
	at := func(share float64) time.Duration { return all[int(share*float64(len(all)-1))] }
	return Lateness{N: len(all), P50: at(0.5), P99: at(0.99), Max: all[len(all)-1]}
}

const (
	promised = time.Second // no single fault of a replica or a lock server delays a trigger by more
	early    = time.Second // nor does anybody's wall clock start it before
	// stuck is when MariaDB ends the transaction of a client that froze or was cut off within it: until
	// then its locks hold. (idle_transaction_timeout, set by store.Open and sqllock.Open.)
	stuck    = time.Second
	reaction = time.Second / 2 // of those that waited for it
	// enough is how many triggers a 99th percentile needs.
	enough = 50
)

// punctual is one row of the ledger on its way.
type punctual struct {
	row          history.Row
	due, decided time.Time
	late         time.Duration // of the start, or the decision
	waited       bool          // for its slot, by catch-up "all"
}

// onTime is I8: nothing starts more than a second before it is due, whatever the wall clock of a
// replica says; every due time is decided within a second; and while nothing is broken, 99 of 100
// have started within 0.5 s, or 1 s on ZooKeeper. All of it plus Run.Slack.
//
// Excused are: everything while the store is down or slow for all replicas, all replicas are down,
// or two faults strike at once; lateness while the lock service is away with when_down: wait; half a second
// more while a replica is frozen or cut off from MariaDB, since it may hold rows until the server
// ends its transaction, and any time on SQLite, as the README says; due times that catch-up "all"
// makes wait for their slot; replicas that a busy machine starves; and all comparisons after the database's clock was stepped.
func (t *trial) onTime() {
	t.notEarly()
	var healthy, faulty []time.Duration
	for _, p := range t.punctuals() {
		if p.waited {
			continue
		}
		if len(t.applied(p.due, p.due.Add(p.late))) > 0 {
			faulty = append(faulty, p.late)
		} else {
			healthy = append(healthy, p.late)
		}
		if bound, bounded := t.mayBeLate(p.due, p.decided); bounded && p.decided.Sub(p.due) > bound && !t.starved(p.row.Replica, p.decided) {
			t.violate(OnTime, subject(p.row), p.decided, "decided %v after it was due, and %v are allowed", ms(p.decided.Sub(p.due)), bound)
		}
	}
	t.report.Healthy, t.report.Faulty = latenessOf(healthy), latenessOf(faulty)
	limit := 500 * time.Millisecond
	if t.onZooKeeper() {
		limit = time.Second
	}
	limit += t.run.Slack
	if h := t.report.Healthy; h.N >= enough && h.P99 > limit {
		t.violate(OnTime, "healthy windows", time.Time{}, "lateness %v, and p99 may be %v", h, limit)
	}
}

func (t *trial) notEarly() {
	for _, e := range t.begun {
		c := t.claims[claimKey{e.TaskID, e.Token}]
		if e.ScheduledAt.IsZero() || t.steps() && (c == nil || !t.sameClock(c.seq)) {
			continue
		}
		if before := e.ScheduledAt.Sub(e.At); before > early {
			t.violate(OnTime, e.Job, e.At, "%s started it %v before it was due at %s", e.Replica, ms(before), e.ScheduledAt.UTC().Format("15:04:05.999"))
		}
	}
}

// punctuals are the rows that schedules made and whose times mean something here.
func (t *trial) punctuals() []punctual {
	written := map[ledgerKey]int64{}
	for _, c := range t.h.Audit {
		if c.Table == "triggers" && c.Before == nil && c.After != nil {
			written[keyOf(*c.After)] = c.Seq
		}
	}
	started := map[string]time.Time{}
	for _, e := range t.begun {
		if before, seen := started[e.TaskID]; !seen || e.At.Before(before) {
			started[e.TaskID] = e.At
		}
	}
	var all []punctual
	late := map[string]time.Time{} // when the last of a job's earlier due times was made up for
	byTime := func(a, b history.Row) int { return cmp.Compare(a.At, b.At) }
	for _, r := range slices.SortedFunc(slices.Values(t.h.Final.Triggers), byTime) {
		job, known := t.jobs[r.Job]
		if r.Seq > 0 || !known || !t.sameClock(written[keyOf(r)]) {
			continue
		}
		p := punctual{row: r, due: dbTime(cmp.Or(r.Until, r.At)), decided: dbTime(r.DecidedAt)}
		if r.Cause == "catch_up" && p.decided.After(late[r.Job]) {
			late[r.Job] = p.decided
		}
		p.waited = job.CatchUp == "all" && !late[r.Job].Before(p.due) // itself, or behind one that did
		p.late = p.decided.Sub(p.due)
		if at, ran := started[r.TaskID]; ran && r.TaskID != "" {
			p.late = at.Sub(p.due)
		}
		all = append(all, p)
	}
	return all
}

type ledgerKey struct {
	job     string
	at, seq int64
}

func keyOf(r history.Row) ledgerKey { return ledgerKey{r.Job, r.At, r.Seq} }

// mayBeLate is how long after due a decision may come that came at decided.
func (t *trial) mayBeLate(due, decided time.Time) (bound time.Duration, bounded bool) {
	bound = promised + t.run.Slack
	for _, w := range t.applied(due, decided) {
		all := t.everybody(w)
		switch {
		case w.Pair != "":
			return 0, false
		case has(w, history.StoreClock), has(w, history.StoreDown, history.StoreSlow) && all:
			return 0, false
		case has(w, history.LockDown) && t.run.WhenDown == "wait":
			return 0, false
		case has(w, history.ReplicaDown, history.ReplicaFrozen) && all:
			return 0, false
		case has(w, history.ReplicaFrozen, history.StoreDown, history.StoreSlow) && t.onSQLite():
			return 0, false
		case has(w, history.ReplicaFrozen, history.StoreDown, history.StoreSlow):
			bound = stuck + reaction + t.run.Slack
		}
	}
	return bound, true
}
