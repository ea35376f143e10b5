package scheduler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// given is a handler that passes on its task, and ends when it is told how.
type given struct {
	tasks chan jobs.Task
	end   chan error
}

func newGiven() given { return given{make(chan jobs.Task, 100), make(chan error)} }

func (g given) Run(_ context.Context, t jobs.Task, _ io.Writer) error {
	g.tasks <- t
	return <-g.end
}

// Identity is the same for all of them.
func (given) Identity() string { return "given" }

// now returns the task that has begun, without letting time pass; none: its id is empty.
func (g given) now() jobs.Task {
	synctest.Wait()
	select {
	case task := <-g.tasks:
		return task
	default:
		return jobs.Task{}
	}
}

// finish ends one run, and waits until that is recorded.
func (g given) finish(err error) {
	g.end <- err
	synctest.Wait()
}

// A manual run starts at once, here, and the ledger says what it is and its caller. While it runs, another one
// is recorded as skipped, and the error says why and what to do.
func TestARunByHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &memstore.Store{Database: memstore.New()}
		h := newGiven()
		s := runs(t, st, jobs.Set{Jobs: map[string]jobs.Job{"j": {Handler: h, Payload: json.RawMessage(`{"n":1}`)}}}, Options{ID: "a", Workers: 1})
		time.Sleep(time.Second + 123*time.Microsecond)
		asked := time.Now()
		trigger, task, err := s.RunJob(t.Context(), "j", "ann", "")
		if err != nil {
			t.Fatal(err)
		}
		if !trigger.At.Equal(asked.Truncate(time.Millisecond)) || trigger.Job != "j" || trigger.Cause != jobs.CauseManual || trigger.By != "ann" ||
			trigger.Seq == 0 || trigger.Count != 1 || trigger.Outcome != "" || trigger.Replica != "a" || trigger.TaskID != task.ID {
			t.Errorf("the trigger is %+v", trigger)
		}
		if task.ID == "" || task.State != jobs.StateRunning || task.Replica != "a" || task.Job != "j" || task.By != "ann" || string(task.Payload) != `{"n":1}` {
			t.Errorf("the task is %+v", task)
		}
		if got := h.now(); got.ID != task.ID || got.Token != task.Token {
			t.Errorf("the handler was given %+v", got)
		}
		time.Sleep(time.Second)
		skipped, none, err := s.RunJob(t.Context(), "j", "bob", "")
		if !errors.Is(err, jobs.ErrConflict) || !strings.HasPrefix(err.Error(), `job "j": conflict: `+skipped.Reason+"; wait for its end, or cancel it first: scheduler tasks cancel "+task.ID) || none.ID != "" {
			t.Errorf("a second run beside it: %v, %+v", err, none)
		}
		rows := triggersOf(st)
		if got := rows[skipped.At.UnixMicro()]; got.Outcome != string(jobs.Skipped) || got.Reason == "" || got.Reason != skipped.Reason || got.Cause != string(jobs.CauseManual) ||
			got.By != "bob" || got.Replica != "a" || got.Count != 1 || got.TaskID != "" || len(rows) != 2 {
			t.Errorf("recorded of the second run: %+v, in %d rows", got, len(rows))
		}
		time.Sleep(time.Second)
		if third, _, err := s.RunJob(t.Context(), "j", "", ""); !errors.Is(err, jobs.ErrConflict) || third.Reason != skipped.Reason || len(triggersOf(st)) != 3 {
			t.Errorf("a third run, nobody knows by whom: %v, %+v, in %d rows", err, third, len(triggersOf(st)))
		}
		h.finish(nil)
		if got := triggersOf(st)[trigger.At.UnixMicro()]; got.Outcome != string(jobs.Ran) || got.Result != string(jobs.StateSucceeded) {
			t.Errorf("recorded of the first run: %+v", got)
		}
		if _, task, err = s.RunJob(t.Context(), "j", "bob", ""); err != nil || h.now().ID != task.ID {
			t.Errorf("a run after it: %v", err)
		}
		h.finish(nil)
	})
}

// triggersOf is the ledger, by due time.
func triggersOf(st *memstore.Store) map[int64]memstore.Trigger {
	all := map[int64]memstore.Trigger{}
	st.Database.Look(func(rows memstore.Rows) {
		for _, row := range rows.Triggers {
			all[row.At] = row
		}
	})
	return all
}

// Without room here a manual run waits for a worker of this replica or for another replica.
func TestARunByHandWithoutRoom(t *testing.T) {
	for what, other := range map[string]bool{"it starts here as soon as a worker is free": false, "another replica takes it": true} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db := memstore.New()
				h := newGiven()
				set := jobs.Set{Jobs: map[string]jobs.Job{"j": {Handler: h}, "k": {Handler: h}}}
				s := runs(t, &memstore.Store{Database: db}, set, Options{ID: "a", Workers: 1})
				time.Sleep(5 * time.Second)
				if _, _, err := s.RunJob(t.Context(), "j", "ann", ""); err != nil {
					t.Fatal(err)
				}
				h.now()
				_, task, err := s.RunJob(t.Context(), "k", "ann", "")
				if err != nil || task.ID == "" || task.State != jobs.StatePending {
					t.Fatalf("%v; the second task is %+v", err, task)
				}
				if got := h.now(); got.ID != "" {
					t.Fatalf("one worker runs two tasks, the second one is %+v", got)
				}
				want := "a"
				if other {
					runs(t, &memstore.Store{Database: db}, set, Options{ID: "b"})
					time.Sleep(5 * time.Second)
					want = "b"
				} else {
					h.finish(nil)
				}
				if got := h.now(); got.ID != task.ID || got.Replica != want {
					t.Errorf("then %q of replica %q runs, want %q of %q", got.ID, got.Replica, task.ID, want)
				}
				close(h.end)
			})
		})
	}
}

// undecided is a store that answers decisions with err, if there is one, or not at all.
type undecided struct {
	*memstore.Store
	err   error
	hangs bool // until its caller gives up
}

func (u *undecided) Decide(ctx context.Context, d ledger.Decide) (ledger.Decided, error) {
	if u.hangs {
		<-ctx.Done()
		return ledger.Decided{}, fmt.Errorf("%w: %w", jobs.ErrUnavailable, ctx.Err())
	}
	if u.err != nil {
		return ledger.Decided{}, u.err
	}
	return u.Store.Decide(ctx, d)
}

// noLocks is a lock service that answers and grants no key.
type noLocks struct{}

func (noLocks) TryAcquire(_ context.Context, requests ...locks.Request) ([]locks.Attempt, error) {
	return make([]locks.Attempt, len(requests)), nil
}

func (noLocks) Acquire(ctx context.Context, _ ...locks.Request) ([]*locks.Lease, error) {
	<-ctx.Done()
	return nil, fmt.Errorf("%w: %w", locks.ErrBusy, ctx.Err())
}

func (noLocks) Release(context.Context, ...*locks.Lease) error { return nil }
func (noLocks) Caps() locks.Caps                               { return locks.Caps{Name: "other"} }
func (noLocks) State() locks.State                             { return locks.State{} }

// A manual run that cannot be done is refused with the reason. Nothing is recorded or started then, and
// the replica's only worker is free for the next one.
func TestWhatByHandIsRefused(t *testing.T) {
	unwell := errors.New("unwell")
	for what, c := range map[string]struct {
		job   string
		spoil func(s *Scheduler, st *undecided)
		is    error
		says  string
		ends  bool // the replica with it
	}{
		"a job that nobody knows":    {job: "k", is: jobs.ErrNotFound, says: `job "k": not found`},
		"while it drains":            {spoil: func(s *Scheduler, _ *undecided) { s.members.Drain() }, is: jobs.ErrUnavailable, says: "stopping", ends: true},
		"after its drain":            {spoil: func(s *Scheduler, _ *undecided) { _ = s.work.Drain() }, is: jobs.ErrUnavailable, says: "stopping", ends: true},
		"without the lock service":   {spoil: func(s *Scheduler, _ *undecided) { s.locks.Failed(unwell) }, is: jobs.ErrUnavailable, says: "lock service is away, and lock.when_down is wait"},
		"without the store":          {spoil: func(_ *Scheduler, st *undecided) { st.err = fmt.Errorf("%w: away", jobs.ErrUnavailable) }, is: jobs.ErrUnavailable, says: "away"},
		"while no clock is believed": {spoil: func(_ *Scheduler, st *undecided) { st.err = ledger.ErrClock }, is: jobs.ErrUnavailable, says: ": " + jobs.ErrUnavailable.Error() + ": " + ledger.ErrClock.Error()},
		"after its session's death":  {spoil: func(_ *Scheduler, st *undecided) { st.err = ledger.ErrSessionDead }, is: jobs.ErrUnavailable, says: ledger.ErrSessionDead.Error()},
		"and the store refuses":      {spoil: func(_ *Scheduler, st *undecided) { st.err = unwell }, is: unwell, says: "unwell"},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := &undecided{Store: &memstore.Store{Database: memstore.New()}}
				h := newGiven()
				set := jobs.Set{Jobs: map[string]jobs.Job{"j": {Handler: h}}}
				s, err := newOn(st, noLocks{}, set, Options{ID: "a", Workers: 1, WhenDown: DownWait})
				if err != nil {
					t.Fatal(err)
				}
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- s.Run(ctx) }()
				defer func() {
					stop()
					if err := <-ended; err != nil {
						t.Error(err)
					}
				}()
				time.Sleep(time.Second)
				_, first, err := s.RunJob(t.Context(), "j", "ann", "")
				if err != nil {
					t.Fatal(err)
				}
				h.now()
				h.finish(nil)
				if c.spoil != nil {
					c.spoil(s, st)
				}
				job := c.job
				if job == "" {
					job = "j"
				}
				trigger, task, err := s.RunJob(t.Context(), job, "ann", "")
				if prefix := `run job "j": `; c.job == "" && !strings.HasPrefix(err.Error(), prefix) {
					t.Errorf("%v does not begin with %q", err, prefix)
				}
				if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) || trigger.Job != "" || task.ID != "" {
					t.Errorf("a run: %v, %+v, %+v; want %v that says %q", err, trigger, task, c.is, c.says)
				}
				if errors.Is(err, jobs.ErrUnavailable) != errors.Is(c.is, jobs.ErrUnavailable) {
					t.Errorf("who should try again is told %v", err)
				}
				if c.job == "" {
					if task, err := s.Retry(t.Context(), first.ID, "ann", ""); !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) || !strings.HasPrefix(err.Error(), "retry task "+first.ID+": ") || task.ID != "" {
						t.Errorf("a retry: %v, %+v", err, task)
					}
				}
				if got := h.now(); got.ID != "" || len(triggersOf(st.Store)) != 1 {
					t.Errorf("begun: %+v; the ledger has %d rows", got, len(triggersOf(st.Store)))
				}
				if c.ends {
					return
				}
				st.err = nil
				s.locks.Failed(nil)
				time.Sleep(s.opt.SessionTTL) // it sends heartbeats
				if _, task, err := s.RunJob(t.Context(), "j", "ann", ""); err != nil || task.State != jobs.StateRunning || h.now().ID != task.ID {
					t.Errorf("a run after that: %v, %+v", err, task)
				}
				h.finish(nil)
			})
		})
	}
}

// A job that the newer configuration does not have any more has no manual runs.
func TestARetiredJobIsNotRunByHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memstore.New()
		older := runs(t, &memstore.Store{Database: db}, jobs.Set{Jobs: map[string]jobs.Job{"j": {Handler: newGiven()}}}, Options{ID: "a"})
		time.Sleep(time.Second)
		runs(t, &memstore.Store{Database: db}, jobs.Set{}, Options{ID: "b"})
		time.Sleep(5 * time.Second)
		if _, _, err := older.RunJob(t.Context(), "j", "ann", ""); !errors.Is(err, jobs.ErrConflict) || !strings.Contains(err.Error(), "newer configuration") {
			t.Errorf("%v", err)
		}
	})
}

// A job and its tasks are left to the newer configuration that has the job otherwise.
func TestANewerConfigurationGovernsRunsByHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memstore.New()
		h := newGiven()
		close(h.end)
		set := func(payload string) jobs.Set {
			return jobs.Set{Jobs: map[string]jobs.Job{"j": {Handler: h, Payload: json.RawMessage(payload)}}}
		}
		older := runs(t, &memstore.Store{Database: db}, set("1"), Options{ID: "a", Workers: 1})
		time.Sleep(time.Second)
		_, first, err := older.RunJob(t.Context(), "j", "ann", "")
		if err != nil {
			t.Fatal(err)
		}
		newer := runs(t, &memstore.Store{Database: db}, set("2"), Options{ID: "b"})
		time.Sleep(5 * time.Second)
		h.now()
		if _, _, err := older.RunJob(t.Context(), "j", "ann", ""); !errors.Is(err, jobs.ErrConflict) || !strings.Contains(err.Error(), `newer configuration governs job "j"`) {
			t.Errorf("a run: %v", err)
		}
		if _, err := older.Retry(t.Context(), first.ID, "ann", ""); !errors.Is(err, jobs.ErrConflict) || !strings.Contains(err.Error(), `newer configuration governs job "j"`) {
			t.Errorf("a retry: %v", err)
		}
		if got := h.now(); got.ID != "" {
			t.Errorf("begun: %+v", got)
		}
		if _, task, err := newer.RunJob(t.Context(), "j", "ann", ""); err != nil || string(task.Payload) != "2" || h.now().ID != task.ID {
			t.Errorf("a run by the newer one: %v, %+v", err, task)
		}
		// The retry has the payload of the task that failed.
		if task, err := newer.Retry(t.Context(), first.ID, "ann", ""); err != nil || string(task.Payload) != "1" || string(h.now().Payload) != "1" {
			t.Errorf("a retry by the newer one: %v, %+v", err, task)
		}
	})
}

// The end of the caller's context cancels nothing that has begun, which ends within 10 s; a context that has ended before
// begins nothing.
func TestWhoAsksByHandAndGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &undecided{Store: &memstore.Store{Database: memstore.New()}}
		h := newGiven()
		s := runs(t, st, jobs.Set{Jobs: map[string]jobs.Job{"j": {Handler: h}}}, Options{ID: "a", Workers: 1})
		time.Sleep(time.Second)
		ctx, goAway := context.WithCancel(t.Context())
		goAway()
		if _, _, err := s.RunJob(ctx, "j", "ann", ""); !errors.Is(err, context.Canceled) || len(triggersOf(st.Store)) > 0 {
			t.Errorf("gone before: %v, %d rows", err, len(triggersOf(st.Store)))
		}
		for _, after := range []time.Duration{time.Second, time.Hour} {
			st.hangs = true
			ctx, goAway := context.WithTimeout(t.Context(), after)
			began := time.Now()
			_, _, err := s.RunJob(ctx, "j", "ann", "")
			goAway()
			if took := time.Since(began); took != 10*time.Second || !errors.Is(err, jobs.ErrUnavailable) {
				t.Errorf("who asks stays %v: %v after %v", after, err, took)
			}
			st.hangs = false
		}
		if _, task, err := s.RunJob(t.Context(), "j", "ann", ""); err != nil || h.now().ID != task.ID {
			t.Errorf("the only worker is not free: %v, %+v", err, task)
		}
		h.finish(nil)
	})
}
