package scheduler

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// orderOf is an order as the store has it.
func orderOf(t *testing.T, st *memstore.Store, id string) wire.Order {
	t.Helper()
	o, err := st.Order(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// until runs a replica until stop is called.
func until(t *testing.T, st ledger.Store, set jobs.Set, id string) (s *Scheduler, stop func()) {
	t.Helper()
	s, err := newOn(st, nil, set, Options{ID: id})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	return s, func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// A run that was ordered starts when its time comes, once, by one of the replicas, with the payload that was given; its trigger names the order.
func TestARunAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memstore.New()
		st := &memstore.Store{Database: db}
		h := newGiven()
		set := jobs.Set{Jobs: map[string]jobs.Job{"j": {Handler: h, Payload: map[string]int{"n": 1}, Suspend: true}}}
		s := runs(t, st, set, Options{ID: "a"})
		runs(t, &memstore.Store{Database: db}, set, Options{ID: "b"})
		time.Sleep(5 * time.Second)
		at := time.Now().Add(time.Hour).UTC()
		o, err := s.RunJobAt(t.Context(), "j", jobs.NewRun{By: "ann", Payload: map[string]int{"n": 2}}, at)
		if err != nil || o.State != wire.OrderOpen || !o.At.Equal(at) || o.By != "ann" {
			t.Fatalf("ordered: %+v, %v", o, err)
		}
		cancelled, err := s.RunJobAt(t.Context(), "j", jobs.NewRun{}, at)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := st.CancelOrder(t.Context(), cancelled.ID, "bob"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Until(at) - time.Millisecond)
		if got := h.now(); got.ID != "" {
			t.Fatalf("before its time it started: %+v", got)
		}
		time.Sleep(20 * time.Millisecond)
		got := h.now()
		if got.ID == "" || string(got.Payload) != `{"n":2}` || !got.ScheduledAt.Equal(at) || got.By != "ann" {
			t.Errorf("at its time starts %+v", got)
		}
		if o := orderOf(t, st, o.ID); o.State != wire.OrderDone || o.TaskID != got.ID {
			t.Errorf("the order is %+v", o)
		}
		if row := triggersOf(st)[at.UnixMicro()]; row.Order != o.ID || row.Cause != string(jobs.CauseManual) || row.By != "ann" || row.Seq != 1 {
			t.Errorf("the ledger has %+v", row)
		}
		close(h.end)
		time.Sleep(time.Minute)
		if got := h.now(); got.ID != "" {
			t.Errorf("it started once more: %+v", got)
		}
	})
}

// What has passed, and what no job is, cannot be ordered; nor a force, nor a payload that the job's params do not accept.
func TestARunAtATimeIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &memstore.Store{Database: memstore.New()}
		s := runs(t, st, jobs.Set{Jobs: map[string]jobs.Job{"j": {Handler: newGiven(), Payload: map[string]int{"n": 1}, Params: map[string]any{"required": []any{"n"}}}}}, Options{ID: "a"})
		time.Sleep(5 * time.Second)
		later := time.Now().Add(time.Minute)
		for what, c := range map[string]struct {
			job  string
			run  jobs.NewRun
			at   time.Time
			is   error
			says string
		}{
			"past":    {job: "j", at: time.Now().Add(-time.Second), is: jobs.ErrInvalid, says: "at: "},
			"now":     {job: "j", at: time.Now(), is: jobs.ErrInvalid, says: "has passed, by the database's time"},
			"job":     {job: "none", at: later, is: jobs.ErrNotFound},
			"force":   {job: "j", at: later, run: jobs.NewRun{Force: "x"}, is: jobs.ErrInvalid, says: "force"},
			"payload": {job: "j", at: later, run: jobs.NewRun{Payload: map[string]int{}}, is: jobs.ErrInvalid, says: "payload"},
		} {
			if o, err := s.RunJobAt(t.Context(), c.job, c.run, c.at); !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %+v, %v", what, o, err)
			}
		}
		if all, _, _ := st.Orders(t.Context(), wire.OrderFilter{}); len(all) > 0 {
			t.Errorf("there are %+v", all)
		}
	})
}

// A payload that the params of the time of its run do not accept is skipped, and the reason is one line with all that is wrong.
func TestARunAtATimeWhosePayloadIsWrongByThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memstore.New()
		st := &memstore.Store{Database: db}
		h := newGiven()
		s, stop := until(t, &memstore.Store{Database: db}, jobs.Set{Jobs: map[string]jobs.Job{"j": {Handler: h}}}, "a")
		time.Sleep(5 * time.Second)
		o, err := s.RunJobAt(t.Context(), "j", jobs.NewRun{Payload: map[string]string{"m": "x", "n": "y"}}, time.Now().Add(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		stop()
		number := map[string]any{"type": "number"}
		runs(t, &memstore.Store{Database: db}, jobs.Set{Jobs: map[string]jobs.Job{"j": {Handler: h, Params: map[string]any{"properties": map[string]any{"m": number, "n": number}}}}}, Options{ID: "b"})
		time.Sleep(2 * time.Minute)
		const want = "payload/m: got string, want number, by the job's params; payload/n: got string, want number, by the job's params"
		if o = orderOf(t, st, o.ID); o.State != wire.OrderSkipped || o.ReasonCode != reason.PayloadRefused || !strings.HasSuffix(o.Reason, want) || strings.Contains(o.Reason, "\n") {
			t.Errorf("the order is %+v", o)
		}
		if got := h.now(); got.ID != "" {
			t.Errorf("it started: %+v", got)
		}
	})
}

// While no replica lives, and while everything is paused, a run waits; then it starts, late and once. Where the job forbids a second run, it is skipped.
func TestARunAtATimeThatIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memstore.New()
		st := &memstore.Store{Database: db}
		h := newGiven()
		set := jobs.Set{Jobs: map[string]jobs.Job{"j": {Handler: h}, "gone": {Handler: h}}}
		var first, second, lost wire.Order
		s, stop := until(t, &memstore.Store{Database: db}, set, "a")
		time.Sleep(5 * time.Second)
		for _, o := range []struct {
			job string
			in  time.Duration
			to  *wire.Order
		}{{"j", time.Minute, &first}, {"j", 30 * time.Minute, &second}, {"gone", time.Minute, &lost}} {
			var err error
			if *o.to, err = s.RunJobAt(t.Context(), o.job, jobs.NewRun{By: "ann"}, time.Now().Add(o.in)); err != nil {
				t.Fatal(err)
			}
		}
		stop()
		time.Sleep(10 * time.Minute)
		if _, err := st.PauseAll(t.Context(), ledger.Pause{By: "ann"}); err != nil {
			t.Fatal(err)
		}
		runs(t, &memstore.Store{Database: db}, jobs.Set{Jobs: map[string]jobs.Job{"j": {Handler: h}}}, Options{ID: "b"})
		time.Sleep(time.Minute)
		if got := h.now(); got.ID != "" || orderOf(t, st, first.ID).State != wire.OrderOpen {
			t.Errorf("in a pause it started: %+v", got)
		}
		if o := orderOf(t, st, lost.ID); o.State != wire.OrderCancelled || o.ReasonCode != reason.JobRemoved {
			t.Errorf("that of a removed job is %+v", o)
		}
		if _, err := st.ResumeAll(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		if got := h.now(); got.ID == "" || !got.ScheduledAt.Equal(first.At) {
			t.Errorf("after it starts %+v", got)
		}
		time.Sleep(time.Hour) // the first run goes on
		if got := h.now(); got.ID != "" {
			t.Errorf("beside it starts %+v", got)
		}
		if o := orderOf(t, st, second.ID); o.State != wire.OrderSkipped || o.ReasonCode != reason.SlotTaken || !strings.Contains(o.Reason, "has been running on replica b") {
			t.Errorf("the second is %+v", o)
		}
		if row := triggersOf(st)[second.At.UnixMicro()]; row.Outcome != string(jobs.Skipped) || row.Order != second.ID {
			t.Errorf("its row is %+v", row)
		}
		close(h.end)
	})
}

// Of two runs at one time of a job that replaces, the first takes the place of what runs, and the second that of the first.
func TestRunsAtOneTimeThatReplace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &memstore.Store{Database: memstore.New()}
		h := brief{&recording{}, time.Minute}
		s, stop := until(t, st, jobs.Set{Jobs: map[string]jobs.Job{"j": {Handler: h, Concurrency: jobs.Replace}}}, "a")
		defer stop()
		time.Sleep(time.Second)
		_, running, err := s.RunJob(t.Context(), "j", "ann", "")
		if err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(5 * time.Second).Truncate(time.Millisecond)
		var orders []string
		for range 2 {
			o, err := s.RunJobAt(t.Context(), "j", jobs.NewRun{By: "ann"}, at)
			if err != nil {
				t.Fatal(err)
			}
			orders = append(orders, o.ID)
		}
		time.Sleep(7 * time.Second)
		for _, id := range orders {
			if o := orderOf(t, st, id); o.State != wire.OrderDone || o.EndedAt.Sub(at) > time.Second {
				t.Errorf("an order is %+v", o)
			}
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		if len(h.started) != 2 || h.started[0].ID != running.ID || h.started[1].ID != orderOf(t, st, orders[1]).TaskID || h.running != 1 {
			t.Errorf("%d have started, and %d runs: %+v", len(h.started), h.running, h.started)
		}
	})
}

// brief runs take a while.
type brief struct {
	*recording
	takes time.Duration
}

// recording notes what runs, and how much at once.
type recording struct {
	mu            sync.Mutex
	started       []jobs.Task
	running, most int // backfills among them
}

func (r *recording) atOnce() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.most
}

func (b brief) Run(ctx context.Context, task jobs.Task, _ io.Writer) error {
	b.mu.Lock()
	b.started = append(b.started, task)
	b.running++
	b.most = max(b.most, b.running)
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.running--
	}()
	select {
	case <-time.After(b.takes):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (brief) Identity() string { return "brief" }

// A backfill makes up for what has not run, each due time once and the oldest first, and holds up no due time of the job: that waits for the run of the
// backfill that has the slot, and is before the next. A replica that dies under it loses nothing.
func TestABackfill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memstore.New()
		st := &memstore.Store{Database: db}
		h := brief{&recording{}, 7 * time.Second}
		set := jobs.Set{Jobs: map[string]jobs.Job{"j": {Handler: h, Schedule: "* * * * *", Timezone: "UTC"}}}
		began := time.Now().Truncate(time.Minute)
		runs(t, st, set, Options{ID: "a"})
		s, stop := until(t, &memstore.Store{Database: db}, set, "b")
		time.Sleep(5*time.Minute + 10*time.Second) // five or six have run
		new := wire.NewBackfill{From: began.Add(-30 * time.Minute), To: began.Add(5 * time.Minute)}
		would, err := s.PreviewBackfill(t.Context(), "j", new)
		if err != nil || would.DueTimes != 35 || would.Ran < 4 || would.Ran > 5 || !would.First.Equal(new.From) || !would.Last.Equal(new.To.Add(-time.Minute)) || would.MaxRunning != 1 {
			t.Fatalf("it would do %+v, %v", would, err)
		}
		h.mu.Lock()
		before := len(h.started)
		h.mu.Unlock()
		o, err := s.Backfill(t.Context(), "j", "ann", new)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if b := orderOf(t, st, o.ID).Backfill; b.Made < 4 || b.Running > 1 || b.Left != 35-b.Made-b.Ran || b.Succeeded < b.Made-1 {
			t.Errorf("after a minute it is %+v", b)
		}
		stop()
		time.Sleep(10 * time.Minute)
		done := orderOf(t, st, o.ID)
		if b := done.Backfill; done.State != wire.OrderDone || b.Made != 35-would.Ran || b.Ran != would.Ran || b.Succeeded != b.Made || b.Left != 0 || b.Running != 0 {
			t.Errorf("in the end it is %+v, %+v", done, b)
		}
		if n := h.atOnce(); n > 1 {
			t.Errorf("%d ran at once", n)
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		var filled []time.Time
		seen := map[time.Time]bool{}
		for _, task := range h.started[before:] {
			if task.Seq > 0 {
				filled = append(filled, task.ScheduledAt)
			}
			if seen[task.ScheduledAt] {
				t.Errorf("%v ran twice", task.ScheduledAt)
			}
			seen[task.ScheduledAt] = true
		}
		if !slices.IsSortedFunc(filled, time.Time.Compare) {
			t.Errorf("the order is %v", filled)
		}
		for at, row := range triggersOf(st) {
			if row.Seq == 0 && row.Outcome != string(jobs.Ran) && row.Outcome != "" {
				t.Errorf("the due time %v is %s: %s", time.UnixMicro(at), row.Outcome, row.Reason)
			}
		}
	})
}

// A rate bounds how many runs are made, a stop ends it, and so does an edit of the schedule; what was made goes on.
func TestABackfillIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memstore.New()
		st := &memstore.Store{Database: db}
		h := brief{&recording{}, time.Second}
		set := jobs.Set{Jobs: map[string]jobs.Job{"j": {Handler: h, Schedule: "@hourly", Concurrency: jobs.Allow}, "none": {Handler: h}}}
		s := runs(t, st, set, Options{ID: "a"})
		time.Sleep(5 * time.Second)
		now := time.Now()
		rate, err := jobs.ParseRate("6/m")
		if err != nil {
			t.Fatal(err)
		}
		new := wire.NewBackfill{From: now.Add(-100 * time.Hour), MaxRunning: 5, Rate: rate, Again: true}
		first, err := s.Backfill(t.Context(), "j", "ann", new)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if b := orderOf(t, st, first.ID).Backfill; b.Made < 6 || b.Made > 7 {
			t.Errorf("at six a minute %d were made", b.Made)
		}
		if o, err := st.CancelOrder(t.Context(), first.ID, "bob"); err != nil || o.State != wire.OrderCancelled {
			t.Errorf("stopped: %+v, %v", o, err)
		}
		made := orderOf(t, st, first.ID).Backfill.Made
		time.Sleep(time.Minute)
		if b := orderOf(t, st, first.ID).Backfill; b.Made != made || b.Succeeded != made {
			t.Errorf("after the stop it is %+v", b)
		}
		new.Rate, new.MaxRunning = jobs.Rate{}, 2
		second, err := s.Backfill(t.Context(), "j", "ann", new)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		edited := set
		edited.Jobs = map[string]jobs.Job{"j": {Handler: h, Schedule: "@daily", Concurrency: jobs.Allow}}
		if _, err := s.Replace(t.Context(), edited, ReplaceOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		o := orderOf(t, st, second.ID)
		if b := o.Backfill; o.State != wire.OrderCancelled || o.ReasonCode != reason.ScheduleChanged || b.Made < 10 || b.Made > 30 || b.Running != 0 {
			t.Errorf("after an edit it is %+v, %+v", o, b)
		}
		if n := h.atOnce(); n > 5 {
			t.Errorf("%d ran at once", n)
		}
		for what, c := range map[string]struct {
			job  string
			b    wire.NewBackfill
			is   error
			says string
		}{
			"job":      {"gone", new, jobs.ErrNotFound, ""},
			"order":    {"j", wire.NewBackfill{From: now, To: now}, jobs.ErrInvalid, "to: must be after from"},
			"future":   {"j", wire.NewBackfill{From: now, To: now.Add(time.Hour)}, jobs.ErrInvalid, "to: is in the future"},
			"nothing":  {"j", wire.NewBackfill{From: now, To: now.Add(time.Second)}, jobs.ErrInvalid, "from: by its schedule the job was not due"},
			"running":  {"j", wire.NewBackfill{From: now, To: now.Add(time.Second), MaxRunning: 101}, jobs.ErrInvalid, "max_running: must be 1 to 100"},
			"too many": {"j", wire.NewBackfill{From: now.AddDate(-300, 0, 0), To: now}, jobs.ErrInvalid, "to: the job was due more than 100000 times"},
		} {
			if _, err := s.Backfill(t.Context(), c.job, "", c.b); !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}
