package judge

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// trial is one run before the judge, with what several invariants look up.
type trial struct {
	h      *history.History
	run    history.Run
	jobs   map[string]history.Job
	pools  map[string]history.Pool
	report Report

	claims  map[claimKey]*claim
	ordered []*claim                     // by Seq
	tasks   map[string]string            // task id → job; empty: of a client
	begun   []history.Effect             // first words of attempts, in order
	stepped int64                        // Seq from which on database times mean nothing to others
	ended   time.Time                    // until when at least one replica was there to decide
	beats   map[string][]time.Time       // of each replica
	lost    []loss                       // see losses
	written map[ledgerKey]history.Change // see ledgerRows
	limits  map[string][]limited         // of pools, see readLimits
	execsBy map[string]history.Exec      // by name
	twins   []history.Process            // that were started beside one that lived; h.Processes are the others
}

type claimKey struct {
	task  string
	token int64
}

// claim is one time that a task was running, as the audit has it.
type claim struct {
	row   history.Row // as it was claimed
	seq   int64
	from  time.Time // database time
	to    time.Time // zero: to the end
	toSeq int64
	until time.Time // may_run_until of its row, the last one; zero: as long as its session is trusted
}

func newTrial(h *history.History) *trial {
	t := &trial{
		run: h.Run, jobs: map[string]history.Job{}, pools: map[string]history.Pool{},
		report:  Report{Run: h.Run, Outcomes: map[string]int{}, Asks: map[string]int{}, Execs: map[string]int{}},
		claims:  map[claimKey]*claim{},
		tasks:   map[string]string{},
		beats:   map[string][]time.Time{},
		execsBy: map[string]history.Exec{},
		stepped: math.MaxInt64,
	}
	t.run.Jobs = slices.Clone(h.Run.Jobs)
	for i, j := range t.run.Jobs {
		j.Due = spread(j)
		t.run.Jobs[i], t.jobs[j.Name] = j, j
	}
	for _, p := range h.Run.Pools {
		t.pools[p.Name] = p
	}
	for _, e := range h.Execs {
		t.execsBy[e.Name] = e
	}
	own := *h
	own.Audit = slices.DeleteFunc(slices.Clone(h.Audit), func(c history.Change) bool { return c.Before == nil && c.After == nil })
	own.Processes = nil
	for _, p := range h.Processes {
		if p.Twin {
			t.twins = append(t.twins, p)
		} else {
			own.Processes = append(own.Processes, p)
		}
	}
	t.h = &own
	for _, what := range h.Damaged {
		t.violate(NotVacuous, "files", time.Time{}, "damaged: %s", what)
	}
	if n := len(h.Audit) - len(own.Audit); n > 0 {
		t.violate(NotVacuous, "audit", time.Time{}, "damaged: %d changes of no row", n)
	}
	own.Windows = slices.SortedStableFunc(slices.Values(h.Windows), func(a, b history.Window) int { return a.Began.Compare(b.Began) })
	slices.SortStableFunc(own.Audit, func(a, b history.Change) int { return cmp.Compare(a.Seq, b.Seq) })
	t.findStep()
	t.readBeats()
	t.readClaims()
	t.readStarts()
	t.ended = t.lastAlive()
	t.readLimits()
	return t
}

// violate notes that a promise did not hold.
func (t *trial) violate(i Invariant, subject string, at time.Time, format string, args ...any) {
	t.report.Violations = append(t.report.Violations, Violation{
		Invariant: i, Subject: subject, Text: fmt.Sprintf(format, args...), At: at, Window: t.openAt(at),
	})
}

// clockError is how far the times of two processes of one machine may lie apart.
const clockError = 5 * time.Millisecond

// findStep finds the first change that may have been written after a step of the database's
// clock. Before it, database and machine agree.
func (t *trial) findStep() {
	var first time.Time
	for _, w := range t.h.Windows {
		if has(w, history.StoreClock) && (first.IsZero() || w.Began.Before(first)) {
			first = w.Began
		}
	}
	if first.IsZero() {
		return
	}
	latest := time.Time{}
	for _, c := range t.h.Audit {
		at := dbTime(c.At)
		if !at.Before(first) || at.Before(latest.Add(-500*time.Millisecond)) {
			t.stepped = c.Seq
			return
		}
		if at.After(latest) {
			latest = at
		}
	}
}

// sameClock reports whether the times that a change wrote can be compared with those of the machine.
func (t *trial) sameClock(seq int64) bool { return seq < t.stepped }

// steps reports whether the database's clock was stepped in this run.
func (t *trial) steps() bool { return t.stepped != math.MaxInt64 }

const running = "running"

func (t *trial) readClaims() {
	for _, c := range t.h.Audit {
		if c.Table != "tasks" {
			continue
		}
		if c.After != nil {
			t.tasks[c.After.ID] = c.After.Job
		}
		was := c.Before != nil && c.Before.State == running
		is := c.After != nil && c.After.State == running
		if was && t.claims[claimKey{c.Before.ID, c.Before.Token}] == nil {
			t.violate(NotVacuous, "task "+c.Before.ID, dbTime(c.At), "damaged: the audit does not say when it was claimed with token %d", c.Before.Token)
			was = false // from here on it is known
		}
		if was && (!is || c.Before.Token != c.After.Token) {
			k := t.claims[claimKey{c.Before.ID, c.Before.Token}]
			k.to, k.toSeq = dbTime(c.At), c.Seq
		}
		if !is {
			continue
		}
		key := claimKey{c.After.ID, c.After.Token}
		if !was || c.Before.Token != c.After.Token {
			k := &claim{row: *c.After, seq: c.Seq, from: dbTime(c.At)}
			t.ordered = append(t.ordered, k)
			if t.claims[key] == nil {
				t.claims[key] = k
			}
		}
		t.claims[key].until = dbTime(c.After.Until)
	}
}

// readStarts takes the first word of every execution: a command's start, or a request's arrival.
func (t *trial) readStarts() {
	for _, e := range t.h.Effects {
		if e.What == history.Start || e.What == history.Open || e.What == history.Fenced {
			t.begun = append(t.begun, e)
		}
	}
	t.report.Starts = len(t.begun)
}

// lastAlive is when the last replica stopped deciding, or when the tables were read.
func (t *trial) lastAlive() time.Time {
	last := map[string]history.Process{}
	for _, p := range t.h.Processes {
		if p.Started.After(last[p.Replica].Started) {
			last[p.Replica] = p
		}
	}
	var latest time.Time
	for _, r := range t.run.Replicas {
		p, known := last[r]
		if !known {
			return t.run.Ended
		}
		end := p.Ended
		if !p.Told.IsZero() {
			end = p.Told
		}
		if end.IsZero() || end.After(t.run.Ended) {
			return t.run.Ended
		}
		if end.After(latest) {
			latest = end
		}
	}
	for _, p := range t.h.Probes {
		if p.Live && p.At.After(latest) {
			latest = p.At
		}
	}
	if latest.IsZero() || latest.After(t.run.Ended) {
		return t.run.Ended
	}
	return latest
}

// quiesced is Run.Quiesced in database time.
func (t *trial) quiesced() time.Time {
	if !t.steps() || len(t.h.Audit) == 0 {
		return t.run.Quiesced
	}
	last := dbTime(t.h.Audit[len(t.h.Audit)-1].At)
	return last.Add(-t.run.Ended.Sub(t.run.Quiesced))
}

// policy is what becomes of a lost attempt of a job or pool, and how many failed ones are retried;
// known: the run has that job or pool.
func (t *trial) policy(job, pool string) (onLost string, retries int, known bool) {
	if job != "" {
		j, ok := t.jobs[job]
		return cmp.Or(j.OnLost, "fail"), j.Retries, ok
	}
	p, ok := t.pools[pool]
	return cmp.Or(p.OnLost, "retry"), p.Retries, ok
}

// rowID is the task that a row of tasks, done or attempts is of.
func rowID(r history.Row) string { return cmp.Or(r.ID, r.TaskID) }

type ledgerKey struct {
	job     string
	at, seq int64
}

func keyOf(r history.Row) ledgerKey { return ledgerKey{r.Job, r.At, r.Seq} }

// ledgerRows are the insertions of the ledger's rows.
func (t *trial) ledgerRows() map[ledgerKey]history.Change {
	if t.written != nil {
		return t.written
	}
	all := map[ledgerKey]history.Change{}
	t.written = all
	for _, c := range t.h.Audit {
		if c.Table == "triggers" && c.Before == nil && c.After != nil {
			all[keyOf(*c.After)] = c
		}
	}
	return all
}
