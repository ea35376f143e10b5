package sim

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/naming"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// Stores that tell of other things than happen, or of nothing, are found, by the check that is about each.
func TestAnEventThatIsWrongIsFound(t *testing.T) {
	none := func(jobs.Task) bool { return false }
	each := func(jobs.Task) bool { return true }
	for what, lie := range some(map[string]struct {
		said string
		of   func(ledger.Store) ledger.Store
	}{
		"tells of no start":                {` started, and no event tells`, func(s ledger.Store) ledger.Store { return asking{s, none, none} }},
		"tells of each start":              {` started, which did not happen then, or nobody asks`, func(s ledger.Store) ledger.Store { return asking{s, each, none} }},
		"tells of no success":              {` succeeded, and no event tells`, func(s ledger.Store) ledger.Store { return asking{s, each, none} }},
		"tells of each success":            {` succeeded, which did not happen then, or nobody asks`, func(s ledger.Store) ledger.Store { return asking{s, none, each} }},
		"tells of no failure":              {` failed, and no event tells`, hears(jobs.EventFailed, nothingOf)},
		"tells of no loss":                 {` lost, and no event tells`, hears(jobs.EventLost, nothingOf)},
		"tells of nothing that was missed": {` missed, and no event tells`, hears(jobs.EventMissed, nothingOf)},
		"tells of no recovery":             {`has recovered with .*, and no event tells`, hears(jobs.EventRecovered, nothingOf)},
		"tells of recoveries twice":        {`is told to have recovered`, hears(jobs.EventRecovered, twice)},
		"tells of starts twice":            {` started, which did not happen then`, hears(jobs.EventStarted, twice)},
		"tells of successes twice":         {` succeeded, which did not happen then`, hears(jobs.EventSucceeded, twice)},
		"tells of another attempt":         {` started: .*, and it was`, hears(jobs.EventStarted, another)},
		"tells of another success":         {` succeeded: .*, and it was`, hears(jobs.EventSucceeded, another)},
		"takes a start for a failure":      {` failed, which did not happen then`, hears(jobs.EventStarted, asFailed)},

		"drops the events of starts":    {`^started .* asked for, and nobody was told`, routing(drops(jobs.EventStarted))},
		"drops the events of successes": {`^succeeded .* asked for, and nobody was told`, routing(drops(jobs.EventSucceeded))},
		"drops what is late":            {`^late .* asked for, and nobody was told`, routing(drops(jobs.EventLate))},
		"drops suspensions":             {`^suspended .* asked for, and nobody was told`, routing(drops(jobs.EventSuspended))},
		"sends what nobody asks for":    {`nobody asks for it`, routing(sendsAll)},
		"sends another replica's name":  {`is sent, and the events are`, routing(misnames)},
		"sends once for each event":     {`is sent by task`, routing(forgetsKeys)},
		"keeps events for another":      {`^not at rest`, routing(func(ledger.Event, ledger.Route) ledger.Route { return ledger.Route{Keep: true} })},
		"takes its time for events":     {`was seen .* after it happened, and nothing was wrong`, func(s ledger.Store) ledger.Store { return leisurely{s} }},
		"drops what may return":         {`and its job or pool may return`, routing(keepsNone)},

		"sends each notification once":         {`nobody was told`, func(s ledger.Store) ledger.Store { return sendsOnce{s} }},
		"sends no notification of the dead":    {`nobody was told`, func(s ledger.Store) ledger.Store { return losesSending{s} }},
		"tells of what notifications come to":  {` failed, which did not happen then`, hears(jobs.EventStarted, ofNotifications)},
		"writes what happened in the next one": {`and no event tells`, delays},
	}) {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			isFound(t, 300, lie.said, func(seed uint64) *world {
				p := newPlan(seed)
				if _, tells := p.Pools[naming.NotificationsPool]; !tells {
					return nil
				}
				return simulate(t, p, lie.of)
			})
		})
	}
}

// frozen is a world in which replicas tell of each run, and freeze for longer than their sessions last.
func frozen(seed uint64) *plan {
	p := small(seed, map[string]rule{"a": every(time.Second), "b": every(time.Second)})
	p.Replicas, p.Slow = 2, false
	for i := range 6 {
		p.Steps = append(p.Steps, step{At: time.Duration(2+4*i) * time.Second, Kind: pauses, Replica: i % 2, For: 2500 * time.Millisecond})
	}
	for name, j := range p.Jobs {
		j.Notify = jobs.Notify{On: []jobs.Event{jobs.EventStarted, jobs.EventSucceeded}, Handler: &handler{}}
		p.Jobs[name] = j
	}
	p.Pools[naming.NotificationsPool] = jobs.Pool{Retries: jobs.Retries{Backoff: 300 * time.Millisecond}}
	return p
}

// What is sent again has the key that it had. Replicas that go by keys of their own are found.
func TestANotificationKeepsItsKey(t *testing.T) {
	t.Parallel()
	again := 0
	for seed := range uint64(20) {
		w := simulate(t, frozen(seed+1), nil)
		for _, v := range w.violations {
			t.Errorf("seed %d: %s", seed+1, v.text)
		}
		again += w.counted["told again"]
	}
	if again == 0 {
		t.Error("nothing was told again")
	}
	isFound(t, 20, `is sent by task .* with the key`, func(seed uint64) *world {
		p, n := frozen(seed), 0
		p.misread = func(set *jobs.Set) {
			n++
			set.Name = fmt.Sprint("replica-", n)
		}
		return simulate(t, p, nil)
	})
}

// asking asks for other starts and successes than definitions do.
type asking struct {
	ledger.Store
	starts, successes func(jobs.Task) bool
}

func (s asking) Claim(ctx context.Context, c ledger.Claim) (ledger.Claimed, error) {
	c.Tells = s.starts
	return s.Store.Claim(ctx, c)
}

func (s asking) Decide(ctx context.Context, d ledger.Decide) (ledger.Decided, error) {
	d.Tells = s.starts
	return s.Store.Decide(ctx, d)
}

func (s asking) Finish(ctx context.Context, session string, results []ledger.Result) ([]ledger.Finished, error) {
	results = slices.Clone(results)
	for i := range results {
		results[i].Tells = s.successes(*results[i].Task)
	}
	return s.Store.Finish(ctx, session, results)
}

// hears has the judge see each event of one sort as others.
func hears(event jobs.Event, as func(memstore.Event) []memstore.Event) func(ledger.Store) ledger.Store {
	return func(s ledger.Store) ledger.Store {
		w := s.(*edge).w
		w.db.Look(func(memstore.Rows) {
			w.db.Watch = func(c memstore.Change) {
				e, is := c.After.(memstore.Event)
				if !is || e.Event != string(event) {
					w.watch(c)
					return
				}
				for _, e := range as(e) {
					c.After = e
					w.watch(c)
				}
			}
		})
		return s
	}
}

func nothingOf(memstore.Event) []memstore.Event { return nil }

func twice(e memstore.Event) []memstore.Event { return []memstore.Event{e, e} }

func another(e memstore.Event) []memstore.Event {
	e.Attempt++
	return []memstore.Event{e}
}

func asFailed(e memstore.Event) []memstore.Event {
	other := e
	other.Event = string(jobs.EventFailed)
	return []memstore.Event{e, other}
}

func ofNotifications(e memstore.Event) []memstore.Event {
	other := e
	other.Event, other.Job, other.Pool, other.TaskID = string(jobs.EventFailed), "", naming.NotificationsPool, "another"
	return []memstore.Event{e, other}
}

// delays has the judge see events with the next transaction.
func delays(s ledger.Store) ledger.Store {
	w := s.(*edge).w
	w.db.Look(func(memstore.Rows) {
		var kept []memstore.Change
		w.db.Watch = func(c memstore.Change) {
			if _, is := c.After.(memstore.Event); is {
				kept = append(kept, c)
				return
			}
			w.watch(c)
			for len(kept) > 0 && kept[0].Commit < c.Commit {
				k := kept[0]
				k.Commit, kept = c.Commit, kept[1:]
				w.watch(k)
			}
		}
	})
	return s
}

// routing changes what becomes of events.
func routing(lie func(ledger.Event, ledger.Route) ledger.Route) func(ledger.Store) ledger.Store {
	return func(s ledger.Store) ledger.Store { return routes{s, lie} }
}

type routes struct {
	ledger.Store
	lie func(ledger.Event, ledger.Route) ledger.Route
}

func (s routes) Notify(ctx context.Context, n ledger.Notify) (ledger.Notified, error) {
	route := n.Route
	n.Route = func(now time.Time, e ledger.Event) ledger.Route { return s.lie(e, route(now, e)) }
	return s.Store.Notify(ctx, n)
}

// leisurely takes seconds to route events.
type leisurely struct{ ledger.Store }

func (s leisurely) Notify(ctx context.Context, n ledger.Notify) (ledger.Notified, error) {
	time.Sleep(3 * time.Second)
	return s.Store.Notify(ctx, n)
}

func drops(event jobs.Event) func(ledger.Event, ledger.Route) ledger.Route {
	return func(e ledger.Event, r ledger.Route) ledger.Route {
		if e.Event == event && r.Task != nil {
			return ledger.Route{}
		}
		return r
	}
}

// sendsAll sends each event to the notifier of its job.
func sendsAll(e ledger.Event, r ledger.Route) ledger.Route {
	if r.Keep || r.Task != nil {
		return r
	}
	n := e.Notification
	n.ID, n.Text = fmt.Sprintf("%s/%s", e.Event, e.TaskID), "it happened"
	return ledger.Route{Task: &jobs.NewTask{Pool: naming.NotificationsPool, Kind: jobs.Notify{}.Kind("job " + e.Job), Payload: n, IdempotencyKey: n.ID}}
}

func keepsNone(_ ledger.Event, r ledger.Route) ledger.Route {
	r.Keep = false
	return r
}

// changed is a route with another notification.
func changed(r ledger.Route, change func(task *jobs.NewTask, n *jobs.Notification)) ledger.Route {
	if r.Task == nil {
		return r
	}
	task, n := *r.Task, r.Task.Payload.(jobs.Notification)
	change(&task, &n)
	task.Payload = n
	return ledger.Route{Task: &task}
}

func misnames(_ ledger.Event, r ledger.Route) ledger.Route {
	return changed(r, func(_ *jobs.NewTask, n *jobs.Notification) { n.Replica = "another" })
}

func forgetsKeys(_ ledger.Event, r ledger.Route) ledger.Route {
	return changed(r, func(task *jobs.NewTask, _ *jobs.Notification) { task.IdempotencyKey = "" })
}

// sendsOnce does not retry what a receiver refused.
type sendsOnce struct{ ledger.Store }

func (s sendsOnce) Finish(ctx context.Context, session string, results []ledger.Result) ([]ledger.Finished, error) {
	results = slices.Clone(results)
	for i, r := range results {
		if r.Task.Pool == naming.NotificationsPool && r.Verdict == ledger.Again {
			results[i].Verdict = ledger.Ended
		}
	}
	return s.Store.Finish(ctx, session, results)
}

// losesSending does not retry what was lost with its replica.
type losesSending struct{ ledger.Store }

func (s losesSending) Assert(ctx context.Context, session string, d ledger.Definitions) (ledger.Assertion, error) {
	return s.Store.Assert(ctx, session, withoutRetry(d))
}

func (s losesSending) Load(ctx context.Context, session string, d ledger.Definitions) (int64, error) {
	return s.Store.Load(ctx, session, withoutRetry(d))
}

func withoutRetry(d ledger.Definitions) ledger.Definitions {
	d.Pools = slices.Clone(d.Pools)
	for i := range d.Pools {
		if d.Pools[i].Name == naming.NotificationsPool {
			d.Pools[i].Retry = false
		}
	}
	return d
}
