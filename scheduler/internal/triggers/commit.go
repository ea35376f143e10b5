package triggers

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
)

const (
	// lookLeast is the shortest time between two looks at a job.
	lookLeast = 5 * time.Millisecond
	// afterFailure is the time until jobs that the store could not decide are looked at again.
	afterFailure = time.Second
	// decideRows is how many due times one transaction opens; jobs beyond that are left to the next one. After an
	// outage a single job may have thousands, and a transaction must end in time.
	decideRows = 5000
)

// decide decides the due times of these jobs, and starts what may start.
//
//  1. decide the jobs whose rows are free, in one transaction (decideFree; the package's drawing has its steps)
//  2. take what is left: jobs whose rows another transaction held, and those beyond decideRows
//  3. decide these in the same way, until none is left
//  4. if no work may begin meanwhile, look at what is left afterFailure later
func (t *Triggers) decide(ctx context.Context, names []string) {
	for {
		_, names = t.decideFree(ctx, names, false)
		if len(names) == 0 {
			return
		}
		if ctx.Err() != nil || !t.work.MayBegin() || t.locks.Blocks() {
			t.lookAgain(names)
			return
		}
	}
}

func (t *Triggers) lookAgain(names []string) {
	at := t.clock.Now().Add(afterFailure)
	for _, name := range names {
		t.upcoming.set(name, at, true) // a due time may wait for the slot
	}
}

// next is when to look at a job that was decided.
type next struct {
	at    time.Time
	waits bool // a due time waits for the slot
}

// decideFree runs one transaction, and returns how many rows it wrote. Nothing was decided about the rest: another
// transaction held the rows of those jobs or, with overdue, had decided what was due, or the transaction was full.
//
// With orders, which are of these jobs, the runs of those are made, too.
func (t *Triggers) decideFree(ctx context.Context, names []string, overdue bool, orders ...ledger.DueOrder) (rows int, rest []string) {
	// A drain does not cancel it: what was decided must be started or handed back.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	defer t.upcoming.begin()()
	p := t.plan.Load()
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return p.Jobs[name] == nil }) // it was removed meanwhile
	may, start := t.work.Reserve(p, names)
	asked := t.foreign.asked()
	ids := taskIDs{}
	var nexts map[string]next
	var foreign []string
	request := t.request(names, may)
	request.Overdue, request.Guard = overdue, request.Guard && !overdue && len(orders) == 0 // overdue jobs are decided with or without the lock
	request.Orders = orders
	request.Decide = func(now time.Time, states []ledger.JobState) []ledger.Decision {
		d := t.rules(p, now, ids.get)
		nexts, rest, foreign = make(map[string]next, len(states)), nil, nil
		var decisions []ledger.Decision
		opened := 0
		for _, state := range states {
			if opened >= decideRows {
				rest = append(rest, state.Name)
				continue
			}
			dec, ok := d.decide(state)
			opened += len(dec.Triggers)
			if !ok {
				foreign = append(foreign, state.Name)
				continue
			}
			nexts[state.Name] = next{dec.NextAt, !dec.Waiting.IsZero()}
			if dec.Cursor.IsZero() {
				_, at := p.Jobs[state.Name].Coming(state.Cursor, p.Namespace())
				nexts[state.Name] = next{at: at}
				if len(dec.Orders) == 0 {
					continue
				}
			}
			decisions = append(decisions, dec)
		}
		return decisions
	}
	decided, err := t.write(ctx, request, start)
	if err != nil || decided.Paused.Is() {
		t.lookAgain(names)
		return 0, nil
	}
	for _, name := range foreign {
		if t.replacing.Load() {
			continue // it is read again once the rows are written
		}
		if t.foreign.add(asked, name) {
			t.log.Warn("the job differs from another replica's newer configuration, and is left to that replica; give it the newer file", "job", name)
		}
	}
	t.ordered(decided)
	soonest := t.clock.Now().Add(lookLeast)
	for name, n := range nexts {
		if !n.at.IsZero() && n.at.Before(soonest) {
			n.at = soonest
		}
		t.upcoming.set(name, n.at, n.waits)
	}
	for _, dec := range decided.Decisions {
		rows += len(dec.Triggers)
	}
	return rows, append(rest, decided.Busy...)
}

// write has the store decide, and starts what became running on the reserved workers.
func (t *Triggers) write(ctx context.Context, request ledger.Decide, start func(context.Context, ledger.Decided)) (ledger.Decided, error) {
	decided, err := t.store.Decide(ctx, request)
	if err != nil {
		t.member.StoreFailed(err)
		start(ctx, ledger.Decided{})
		return ledger.Decided{}, err
	}
	start(ctx, decided)
	t.logDecisions(decided)
	return decided, nil
}

// request is what all deciding transactions of this replica have in common.
func (t *Triggers) request(names []string, may ledger.Admission) ledger.Decide {
	return ledger.Decide{
		Admission: may, Jobs: names, Guard: !t.locks.Used(), Now: t.clock.Check,
	}
}

func (t *Triggers) logDecisions(decided ledger.Decided) {
	for _, dec := range decided.Decisions {
		for _, o := range dec.Triggers {
			trigger := o.Trigger
			if trigger.Job != "" {
				t.metrics.Decided(trigger)
			}
			if trigger.Outcome != "" {
				t.log.Info("trigger", "job", trigger.Job, "at", trigger.At, "outcome", trigger.Outcome, "count", trigger.Count, "reason", trigger.Reason)
			}
		}
	}
}

// taskIDs makes ids for the tasks that a decision opens. They are the same each time the store asks, so an unknown COMMIT
// can be settled by them.
type taskIDs map[taskID]string

type taskID struct {
	job string
	n   int
}

func (ids taskIDs) get(job string, n int) string {
	key := taskID{job, n}
	if ids[key] == "" {
		ids[key] = uuid.Must(uuid.NewV7()).String()
	}
	return ids[key]
}
