package storetest

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

var orderedCases = []Case{
	{"Orders/Added", addedOrders},
	{"Orders/Refused", refusedOrders},
	{"Orders/Run", orderedRun},
	{"Orders/Cancelled", cancelledOrders},
	{"Orders/Removed", ordersOfRemoved},
	{"Orders/RemovedByOthers", ordersOfRemovedByOthers},
	{"Orders/Backfill", backfilled},
	{"Orders/Ran", whatRan},
	{"Orders/Swept", sweptOrders},
	{"Orders/Together", ordersTogether},
}

// past is a time of the past, on which job a is due.
func past(n int) time.Time { return due(n).Add(-10 * 365 * 24 * time.Hour) }

// order adds an order of job a.
func (s *scene) order(o ledger.Order) ledger.Order {
	s.t.Helper()
	if o.ID == "" {
		o.ID = newID()
	}
	if o.Job == "" {
		o.Job = "a"
	}
	added, err := s.Store.AddOrder(s.ctx(), o, hash)
	must(s.t, err)
	return added
}

func (s *scene) orderAt(at time.Time) ledger.Order {
	s.t.Helper()
	return s.order(ledger.Order{Kind: wire.OrderRun, By: "ann", Asked: ledger.Asked{At: at}})
}

// fill adds a backfill of job a from past(from) to past(to).
func (s *scene) fill(from, to int, again bool) ledger.Order {
	s.t.Helper()
	b := &wire.NewBackfill{From: past(from), To: past(to), MaxRunning: 2, Again: again}
	return s.order(ledger.Order{Kind: wire.OrderBackfill, By: "ann", Asked: ledger.Asked{Backfill: b, Schedule: "every minute", DueTimes: to - from}})
}

// makes is a Decide call of job a in which the order gets runs for these due times; the rest of the state of each is for the caller.
func (s *scene) makes(o ledger.Order, become func(is ledger.OrderState) (ledger.Order, []ledger.Opening)) (ledger.Decided, error) {
	d := s.deciding(func(states []ledger.JobState) (all []ledger.Decision) {
		for _, state := range states {
			for _, is := range state.Orders {
				next, opened := become(is)
				all = append(all, ledger.Decision{Job: state.Name, Triggers: opened, Orders: []ledger.Order{next}})
			}
		}
		return all
	})
	d.Orders = []ledger.DueOrder{{ID: o.ID, Job: o.Job}}
	return s.Store.Decide(s.ctx(), d)
}

// runFor is a run of an order, which is not claimed.
func runFor(o ledger.Order, at time.Time, cause jobs.Cause) ledger.Opening {
	return ledger.Opening{
		Trigger: jobs.Trigger{Job: o.Job, At: at, Cause: cause, By: o.By, Order: o.ID},
		Task:    &jobs.Task{ID: newID(), Pool: "work", By: o.By},
	}
}

func (s *scene) view(id string) wire.Order {
	s.t.Helper()
	v, err := s.Store.Order(s.ctx(), id)
	must(s.t, err)
	return v
}

// dueOrders are the jobs of the due ones.
func (s *scene) dueOrders(at time.Time, limit int) (all []string) {
	s.t.Helper()
	rows, err := s.Store.DueOrders(s.ctx(), at, limit)
	must(s.t, err)
	for _, d := range rows {
		all = append(all, d.ID)
	}
	return all
}

// An order is kept as it was asked for, and found by its time.
func addedOrders(t *testing.T, b *Bench) {
	s := newScene(t, b)
	if is, err := s.Store.Ready(s.ctx(), asIs); err != nil || !is.Ordered.IsZero() {
		t.Errorf("before: %v, %v", is.Ordered, err)
	}
	at := time.Now().UTC().Truncate(time.Second).Add(time.Hour)
	o := ledger.Order{ID: newID(), Job: "a", Kind: wire.OrderRun, By: "ann", Asked: ledger.Asked{At: at, Payload: []byte(`{"n":1}`)}}
	added := s.order(o)
	if again := s.order(o); !again.CreatedAt.Equal(added.CreatedAt) || again.ID != added.ID {
		t.Errorf("added twice: %+v, %+v", added, again)
	}
	if age := time.Since(added.CreatedAt).Abs(); age > time.Minute || !added.NextAt.Equal(at) || added.State != wire.OrderOpen {
		t.Errorf("added is %+v", added)
	}
	v := s.view(o.ID)
	if v.Job != "a" || v.Kind != wire.OrderRun || v.State != wire.OrderOpen || v.By != "ann" || !v.At.Equal(at) || string(v.Payload) != `{"n":1}` || v.Backfill != nil || !v.EndedAt.IsZero() {
		t.Errorf("it is shown as %+v", v)
	}
	other := s.order(ledger.Order{Job: "b", Kind: wire.OrderRun, Asked: ledger.Asked{At: at.Add(-time.Minute)}})
	if is, err := s.Store.Ready(s.ctx(), asIs); err != nil || !is.Ordered.Equal(at.Add(-time.Minute)) {
		t.Errorf("the first is at %v, %v", is.Ordered, err)
	}
	for _, look := range []struct {
		at    time.Time
		limit int
		want  []string
	}{
		{at.Add(-time.Hour), 10, nil}, {at.Add(-time.Microsecond), 10, []string{other.ID}}, {at, 10, []string{other.ID, o.ID}}, {at, 1, []string{other.ID}},
	} {
		if got := s.dueOrders(look.at, look.limit); !slices.Equal(got, look.want) {
			t.Errorf("due at %v: %v, want %v", look.at, got, look.want)
		}
	}
	fill := s.fill(-3, -1, false)
	if !fill.NextAt.Equal(fill.CreatedAt) || !fill.Progress.Cursor.Equal(past(-3).Add(-time.Microsecond)) {
		t.Errorf("a backfill begins as %+v", fill)
	}
	if v := s.view(fill.ID); v.Backfill == nil || v.Backfill.DueTimes != 2 || v.Backfill.Left != 2 || !v.Backfill.Reached.IsZero() || v.Backfill.MaxRunning != 2 {
		t.Errorf("and is shown as %+v, %+v", v, v.Backfill)
	}
	ids := func(f wire.OrderFilter) (all []string) {
		rows, _, err := s.Store.Orders(s.ctx(), f)
		must(t, err)
		for _, v := range rows {
			all = append(all, v.ID)
		}
		return all
	}
	for _, list := range []struct {
		f    wire.OrderFilter
		want []string
	}{
		{wire.OrderFilter{}, []string{fill.ID, other.ID, o.ID}},
		{wire.OrderFilter{Job: "a"}, []string{fill.ID, o.ID}},
		{wire.OrderFilter{Job: "a", Kind: wire.OrderBackfill, State: wire.OrderOpen}, []string{fill.ID}},
		{wire.OrderFilter{State: wire.OrderDone}, nil},
	} {
		if got := ids(list.f); !slices.Equal(got, list.want) {
			t.Errorf("of %+v are %v, want %v", list.f, got, list.want)
		}
	}
}

// What has passed cannot be ordered, nor what was never due.
func refusedOrders(t *testing.T, b *Bench) {
	s := newScene(t, b)
	hour := time.Now().UTC().Add(time.Hour)
	for name, c := range map[string]struct {
		o     ledger.Order
		hash  string
		is    error
		field string
	}{
		"past":     {o: ledger.Order{Job: "a", Asked: ledger.Asked{At: time.Now().Add(-time.Hour)}}, is: jobs.ErrInvalid, field: "at"},
		"future":   {o: ledger.Order{Job: "a", Asked: ledger.Asked{Backfill: &wire.NewBackfill{From: past(-1), To: hour}}}, is: jobs.ErrInvalid, field: "to"},
		"no job":   {o: ledger.Order{Job: "none", Asked: ledger.Asked{At: hour}}, is: jobs.ErrNotFound},
		"other":    {o: ledger.Order{Job: "a", Asked: ledger.Asked{At: hour}}, hash: "newer", is: jobs.ErrConflict},
		"no order": {is: jobs.ErrNotFound},
	} {
		var err error
		if c.o.Job == "" {
			_, err = s.Store.CancelOrder(s.ctx(), newID(), "ann")
			if _, e := s.Store.Order(s.ctx(), newID()); !errors.Is(e, jobs.ErrNotFound) {
				t.Errorf("an order that there is not: %v", e)
			}
		} else {
			c.o.ID, c.o.Kind = newID(), wire.OrderRun
			if c.hash == "" {
				c.hash = hash
			}
			_, err = s.Store.AddOrder(s.ctx(), c.o, c.hash)
		}
		field, _ := errors.AsType[*jobs.FieldError](err)
		if !errors.Is(err, c.is) || c.field != "" && (field == nil || field.Path != c.field) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s.wantEmpty("orders")
}

// The run of an order, and its end, are one transaction; its trigger names it.
func orderedRun(t *testing.T, b *Bench) {
	s := newScene(t, b)
	at := time.Now().UTC().Truncate(time.Second).Add(time.Hour)
	o := s.orderAt(at)
	got, err := s.makes(o, func(is ledger.OrderState) (ledger.Order, []ledger.Opening) {
		run, next := runFor(is.Order, is.Asked.At, jobs.CauseManual), is.Order
		next.Progress.TaskID = run.Task.ID
		next.Close(at, wire.OrderDone, "", "")
		return next, []ledger.Opening{run}
	})
	must(t, err)
	if len(got.Decisions) != 1 || len(got.Opened) != 1 || len(got.Decisions[0].Orders) != 1 {
		t.Fatalf("decided was %+v", got)
	}
	id := got.Opened[0].ID
	if v := s.view(o.ID); v.State != wire.OrderDone || v.TaskID != id || !v.EndedAt.Equal(at) {
		t.Errorf("the order is %+v", v)
	}
	s.wantInt(1, "SELECT COUNT(*) FROM {triggers} WHERE job='a' AND at=? AND seq=1 AND cause='manual' AND by_whom='ann' AND order_id=? AND task_id=?", at.UnixMicro(), o.ID, id)
	s.wantInt(0, "SELECT next_at FROM {orders}")
	if is, err := s.Store.Ready(s.ctx(), asIs); err != nil || !is.Ordered.IsZero() {
		t.Errorf("the first is at %v, %v", is.Ordered, err)
	}
	// Asked about once more, it has ended.
	got, err = s.makes(o, func(is ledger.OrderState) (ledger.Order, []ledger.Opening) {
		t.Errorf("it is there again: %+v", is)
		return is.Order, nil
	})
	if err != nil || len(got.Decisions) != 0 {
		t.Errorf("again: %+v, %v", got, err)
	}
	// A decision about an order that was not asked for is refused as a whole.
	two := s.orderAt(at)
	_, err = s.decide(ledger.Decision{Job: "a", Orders: []ledger.Order{two}, Triggers: []ledger.Opening{runFor(two, at, jobs.CauseManual)}})
	if err == nil || !strings.Contains(err.Error(), two.ID) {
		t.Errorf("about an order that is not locked: %v", err)
	}
	s.wantInt(1, "SELECT COUNT(*) FROM {triggers}")
}

func cancelledOrders(t *testing.T, b *Bench) {
	s := newScene(t, b)
	o := s.orderAt(time.Now().Add(time.Hour))
	v, err := s.Store.CancelOrder(s.ctx(), o.ID, "bob")
	if err != nil || v.State != wire.OrderCancelled || v.ReasonCode != reason.Cancelled || v.Reason != "cancelled by bob" || time.Since(v.EndedAt).Abs() > time.Minute {
		t.Errorf("cancelled: %+v, %v", v, err)
	}
	if _, err := s.Store.CancelOrder(s.ctx(), o.ID, "bob"); !errors.Is(err, jobs.ErrConflict) || !strings.Contains(err.Error(), "cancelled since") {
		t.Errorf("again: %v", err)
	}
	if got := s.dueOrders(time.Now().Add(2*time.Hour), 10); len(got) > 0 {
		t.Errorf("due are %v", got)
	}
	got, err := s.makes(o, func(is ledger.OrderState) (ledger.Order, []ledger.Opening) { return is.Order, nil })
	if err != nil || len(got.Decisions) > 0 {
		t.Errorf("decided is %+v, %v", got, err)
	}
}

// What removes a job ends its orders, and no others.
func ordersOfRemoved(t *testing.T, b *Bench) {
	s := newScene(t, b)
	at := time.Now().UTC().Add(time.Hour)
	gone, stays := s.orderAt(at), s.order(ledger.Order{Job: "b", Kind: wire.OrderRun, Asked: ledger.Asked{At: at}})
	cancelled := s.orderAt(at)
	_, err := s.Store.CancelOrder(s.ctx(), cancelled.ID, "")
	must(t, err)
	d := definitions()
	d.Jobs = d.Jobs[1:]
	_, err = s.Store.Load(s.ctx(), s.session, d)
	must(t, err)
	if v := s.view(gone.ID); v.State != wire.OrderCancelled || v.ReasonCode != reason.JobRemoved || v.Reason != ledger.ReasonRetired || v.EndedAt.IsZero() {
		t.Errorf("it is %+v", v)
	}
	if v := s.view(stays.ID); v.State != wire.OrderOpen {
		t.Errorf("that of another job is %+v", v)
	}
	if v := s.view(cancelled.ID); v.ReasonCode != reason.Cancelled || v.Reason != "cancelled" {
		t.Errorf("what had ended is %+v", v)
	}
	if _, err := s.Store.AddOrder(s.ctx(), ledger.Order{ID: newID(), Job: "a", Asked: ledger.Asked{At: at}}, hash); !errors.Is(err, jobs.ErrNotFound) {
		t.Errorf("ordered after that: %v", err)
	}
}

// A program without orders may have removed it: then the order ends when its time has come.
func ordersOfRemovedByOthers(t *testing.T, b *Bench) {
	s := newScene(t, b)
	at := time.Now().UTC().Add(time.Hour)
	gone, stays := s.orderAt(at), s.order(ledger.Order{Job: "b", Kind: wire.OrderRun, Asked: ledger.Asked{At: at}})
	s.DB.Exec(t, "UPDATE {jobs} SET hash='', next_at=0 WHERE name='a'")
	if got := s.dueOrders(at.Add(-time.Minute), 10); len(got) > 0 || s.view(gone.ID).State != wire.OrderOpen {
		t.Errorf("before its time: %v, %+v", got, s.view(gone.ID))
	}
	if got := s.dueOrders(at, 10); !slices.Equal(got, []string{stays.ID}) {
		t.Errorf("due are %v", got)
	}
	if v := s.view(gone.ID); v.State != wire.OrderCancelled || v.ReasonCode != reason.JobRemoved {
		t.Errorf("it is %+v", v)
	}
}
