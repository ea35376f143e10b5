package triggers

import (
	"context"
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
func (s *Triggers) decide(ctx context.Context, names []string) {
	for {
		_, names = s.decideFree(ctx, names, false)
		if len(names) == 0 {
			return
		}
		if ctx.Err() != nil || !s.work.MayBegin() || s.locks.Blocks() {
			s.lookAgain(names)
			return
		}
	}
}

func (s *Triggers) lookAgain(names []string) {
	at := s.clock.Now().Add(afterFailure)
	for _, name := range names {
		s.upcoming.set(name, at, true) // a due time may wait for the slot
	}
}

// next is when to look at a job that was decided.
type next struct {
	at    time.Time
	waits bool // a due time waits for the slot
}

// decideFree runs one transaction, and returns how many rows it wrote. Nothing was decided about the rest: another
// transaction held the rows of those jobs or, with overdue, had decided what was due, or the transaction was full.
func (s *Triggers) decideFree(ctx context.Context, names []string, overdue bool) (rows int, rest []string) {
	// A drain does not cancel it: what was decided must be started or handed back.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	defer s.upcoming.begin()()
	may, start := s.work.Reserve(names)
	asked := s.foreign.asked()
	ids := taskIDs{}
	var nexts map[string]next
	var foreign []string
	request := s.request(names, may)
	request.Overdue, request.Guard = overdue, request.Guard && !overdue // overdue jobs are decided with or without the lock
	request.Decide = func(now time.Time, states []ledger.JobState) []ledger.Decision {
		d := s.rules(now, ids.get)
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
				nexts[state.Name] = next{at: s.plan.Jobs[state.Name].Next(state.Cursor)}
				continue
			}
			decisions = append(decisions, dec)
		}
		return decisions
	}
	decided, err := s.write(ctx, request, start)
	if err != nil {
		s.lookAgain(names)
		return 0, nil
	}
	for _, name := range foreign {
		if s.foreign.add(asked, name) {
			s.log.Warn("the job differs from another replica's newer configuration, and is left to that replica; restart the replica with the older file", "job", name)
		}
	}
	soonest := s.clock.Now().Add(lookLeast)
	for name, n := range nexts {
		if !n.at.IsZero() && n.at.Before(soonest) {
			n.at = soonest
		}
		s.upcoming.set(name, n.at, n.waits)
	}
	for _, dec := range decided.Decisions {
		rows += len(dec.Triggers)
	}
	return rows, append(rest, decided.Busy...)
}

// write has the store decide, and starts what became running on the reserved workers.
func (s *Triggers) write(ctx context.Context, request ledger.Decide, start func(context.Context, ledger.Decided)) (ledger.Decided, error) {
	decided, err := s.store.Decide(ctx, request)
	if err != nil {
		s.member.StoreFailed(err)
		start(ctx, ledger.Decided{})
		return ledger.Decided{}, err
	}
	start(ctx, decided)
	s.logDecisions(decided)
	return decided, nil
}

// request is what all deciding transactions of this replica have in common.
func (s *Triggers) request(names []string, may ledger.Admission) ledger.Decide {
	return ledger.Decide{
		Admission: may, Jobs: names, Guard: !s.locks.Used(), Now: s.clock.Check,
	}
}

func (s *Triggers) logDecisions(decided ledger.Decided) {
	for _, dec := range decided.Decisions {
		for _, o := range dec.Triggers {
			t := o.Trigger
			if t.Job != "" {
				s.metrics.Decided(t)
			}
			if t.Outcome != "" {
				s.log.Info("trigger", "job", t.Job, "at", t.At, "outcome", t.Outcome, "count", t.Count, "reason", t.Reason)
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
