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
	early = time.Second // before the due time, for wrong wall clocks
	// enough is how many triggers a 99th percentile needs.
	enough = 50
)

// punctual is one row of the ledger on its way.
type punctual struct {
	row          history.Row
	due, decided time.Time     // due: when the first of those starts that it stands for
	started      time.Time     // its first attempt, by its handler; zero: it did not start, or had to wait for room in its pool, for a slot of its job or for a lock
	claimant     string        // the replica that started it
	late         time.Duration // of the start, or the decision
	waited       bool          // for its slot, by catch-up "all"
}

// onTime is I8: nothing starts more than a second before it is due, whatever the wall clock of a replica says;
// every due time is decided within a second, and started if there is room for it; and without faults, 99 of 100
// have started within 0.5 s, or 1 s on ZooKeeper. All of it plus Run.Slack.
//
// A fault that began in that time may delay it. Until the fault is over, and no longer: if the store is down or
// slow for all replicas, or its file locked by a frozen process; if all replicas are down; if two faults strike
// at once; if the lock service is down with when_down: wait; if everything is paused; and the start, if a fault that may cost attempts
// strikes the replica that has claimed it. By half a second more: if a replica is frozen or disconnected from
// MariaDB, since it may hold rows until the server ends its transaction; by one and a half, if its connection
// is so slow that this may happen twice in a row. By farOff: if the store is far away. Not checked are due
// times that catch-up "all" delays for their slot; replicas that a busy machine starves; and all comparisons
// after the database's clock was stepped.
func (t *trial) onTime() {
	t.expiries()
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
		if by := t.deadline(p.due); p.decided.After(by) && !t.starved(p.row.Replica, p.decided) {
			t.violate(OnTime, subject(p.row), p.decided, "decided %v after it was due, and %v are allowed", ms(p.decided.Sub(p.due)), ms(by.Sub(p.due)))
		} else if p.started.After(by) && !t.starved(p.claimant, p.started) {
			t.violate(OnTime, subject(p.row), p.started, "started %v after it was due, %v after it was decided, and %v are allowed",
				ms(p.started.Sub(p.due)), ms(p.started.Sub(p.decided)), ms(by.Sub(p.due)))
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
		due := e.ScheduledAt
		if start, runs := t.startOf(t.jobs[e.Job], due); runs && c != nil && c.row.Seq == 0 && c.row.RetryOf == "" {
			due = start
		}
		if before := due.Sub(e.At); before > early {
			t.violate(OnTime, e.Job, e.At, "%s started it %v before it was due at %s", e.Replica, ms(before), due.UTC().Format("15:04:05.999"))
		}
	}
}

// punctuals are the rows of schedules with usable times.
func (t *trial) punctuals() []punctual {
	written := t.ledgerRows()
	started := map[string]history.Effect{}
	for _, e := range t.begun {
		if before, seen := started[e.TaskID]; !seen || e.At.Before(before.At) {
			started[e.TaskID] = e
		}
	}
	queuedFirst := map[string]bool{} // tasks that were made when no slot of their job was free
	for _, c := range t.h.Audit {
		if c.Table == "tasks" && c.Before == nil && c.After != nil && c.After.State == queued {
			queuedFirst[c.After.ID] = true
		}
	}
	var all []punctual
	late := map[string]time.Time{} // when the last of a job's earlier due times was made up for
	byTime := func(a, b history.Row) int { return cmp.Compare(a.At, b.At) }
	for _, r := range slices.SortedFunc(slices.Values(t.h.Final.Triggers), byTime) {
		job, known := t.jobs[r.Job]
		if r.Seq > 0 || !known || edited(r) || !t.sameClock(written[keyOf(r)].Seq) {
			continue
		}
		start, runs := t.startOf(job, dbTime(r.At))
		if !runs {
			continue
		}
		p := punctual{row: r, due: start, decided: dbTime(r.DecidedAt)}
		if r.Cause == "catch_up" && p.decided.After(late[r.Job]) {
			late[r.Job] = p.decided
		}
		p.waited = job.CatchUp == "all" && !late[r.Job].Before(p.due) // itself, or behind one that did
		p.late = p.decided.Sub(p.due)
		if last, runs := t.startOf(job, dbTime(cmp.Or(r.Until, r.At))); runs {
			p.late = p.decided.Sub(last)
		}
		if e, ran := started[r.TaskID]; ran && r.TaskID != "" && job.Lock == "" && !queuedFirst[r.TaskID] {
			p.late = e.At.Sub(p.due)
			if e.Attempt == 1 && unlimited(t.pools[e.Pool]) {
				p.started, p.claimant = e.At, e.Replica
			}
		}
		all = append(all, p)
	}
	return all
}

// unlimited reports whether no limit and no order of a pool has its tasks wait.
func unlimited(p history.Pool) bool {
	return p.MaxRunning == 0 && p.Rate == 0 && p.PerKey == 0 && p.PerKind == nil && !p.Ordered
}
