package sim

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
)

// ordering changes what the rules see of orders, and what becomes of runs at a time.
func ordering(sees func(*ledger.OrderState), becomes func(*ledger.Order)) func(ledger.Store) ledger.Store {
	return func(s ledger.Store) ledger.Store {
		return deciding{s, func(decide func([]ledger.JobState) []ledger.Decision, states []ledger.JobState) []ledger.Decision {
			for i := range states {
				states[i].Orders = slices.Clone(states[i].Orders)
				for n := range states[i].Orders {
					if sees != nil {
						sees(&states[i].Orders[n])
					}
				}
			}
			decisions := decide(states)
			for _, dec := range decisions {
				for n := range dec.Orders {
					if o := &dec.Orders[n]; becomes != nil && o.Kind == wire.OrderRun {
						becomes(o)
					}
				}
			}
			return decisions
		}}
	}
}

// backfilling changes what the rules see of backfills.
func backfilling(sees func(*ledger.OrderState, *wire.NewBackfill)) func(*ledger.OrderState) {
	return func(o *ledger.OrderState) {
		if b := o.Asked.Backfill; b != nil {
			other := *b
			sees(o, &other)
			o.Asked.Backfill = &other
		}
	}
}

// orderless has no orders whose time has come.
type orderless struct{ ledger.Store }

func (orderless) DueOrders(context.Context, time.Time, int) ([]ledger.DueOrder, error) {
	return nil, nil
}

// rescheduling takes each backfill for one of the schedule that the job has now.
type rescheduling struct {
	ledger.Store
	mu        sync.Mutex
	schedules map[string]string
}

func (s *rescheduling) learn(d ledger.Definitions) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.schedules = map[string]string{}
	for _, j := range d.Jobs {
		s.schedules[j.Name] = j.Schedule
	}
}

func (s *rescheduling) Enter(ctx context.Context, session string, d ledger.Definitions) (int64, error) {
	s.learn(d)
	return s.Store.Enter(ctx, session, d)
}

func (s *rescheduling) Load(ctx context.Context, session string, d ledger.Definitions) (int64, error) {
	s.learn(d)
	return s.Store.Load(ctx, session, d)
}

func (s *rescheduling) Decide(ctx context.Context, d ledger.Decide) (ledger.Decided, error) {
	return ordering(func(o *ledger.OrderState) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if is := s.schedules[o.Job]; is != "" {
			o.Asked.Schedule = is
		}
	}, nil)(s.Store).Decide(ctx, d)
}

// hidesBackfills has the rules see no run of a backfill.
func hidesBackfills(decide rulesOfAJob, states []ledger.JobState) []ledger.Decision {
	for i := range states {
		states[i].Backfilled = false
	}
	return decide(states)
}

// orderly decides a job that has an open backfill only with its orders, and then has the rules see none of its due times.
type orderly struct {
	ledger.Store
	mu   sync.Mutex
	open map[string]bool // jobs that had one when they were decided last with their orders
}

func (s *orderly) Decide(ctx context.Context, d ledger.Decide) (ledger.Decided, error) {
	s.mu.Lock()
	d.Jobs = slices.DeleteFunc(slices.Clone(d.Jobs), func(name string) bool { return s.open[name] && len(d.Orders) == 0 })
	s.mu.Unlock()
	decide := d.Decide
	d.Decide = func(now time.Time, states []ledger.JobState) []ledger.Decision {
		states = slices.Clone(states)
		has := map[string]bool{}
		s.mu.Lock()
		for i, state := range states {
			if has[state.Name] = slices.ContainsFunc(state.Orders, func(o ledger.OrderState) bool { return o.Asked.Backfill != nil }); has[state.Name] {
				states[i].Cursor = now
			}
			s.open[state.Name] = has[state.Name]
		}
		s.mu.Unlock()
		decisions := decide(now, states)
		for i := range decisions {
			if has[decisions[i].Job] {
				decisions[i].Cursor = time.Time{}
			}
		}
		return decisions
	}
	return s.Store.Decide(ctx, d)
}

// hidesOne has the rules see one open run less, where there are some.
func hidesOne(decide rulesOfAJob, states []ledger.JobState) []ledger.Decision {
	for i := range states {
		if len(states[i].Orders) > 0 {
			states[i].Open = states[i].Open[min(1, len(states[i].Open)):]
		}
	}
	return decide(states)
}

// ranEachSecond shows each second of a backfill as one that has run.
func ranEachSecond(o *ledger.OrderState, b *wire.NewBackfill) {
	o.Ran = nil
	for at := b.From.Truncate(time.Second); at.Before(b.To) && len(o.Ran) < 400; at = at.Add(time.Second) {
		o.Ran = append(o.Ran, at)
	}
}
