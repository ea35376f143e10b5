package scheduler_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/exechandler"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

func TestDrainLetsWorkFinishAndHandsTheRestBack(t *testing.T) {
	st := sqlite(t).open(t)
	began, finish := make(chan struct{}, 10), make(chan struct{})
	h := does(func(ctx context.Context, _ jobs.Task, _ io.Writer) error {
		began <- struct{}{}
		select {
		case <-finish:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	r := start(t, st, nil, pool(h, func(p *jobs.Pool) { p.Workers = 1 }), scheduler.Options{ID: "a"})
	ids := enqueue(t, st, r, 3)
	<-began
	r.stop()
	await.Until(t, "readiness says so", func() bool {
		h := r.Health()
		return !h[len(h)-1].Ready
	})
	close(finish)
	if err := r.drain(); err != nil {
		t.Fatal(err)
	}
	states := map[jobs.State]int{}
	for _, id := range ids {
		got := task(t, st, id)
		states[got.State]++
		if got.State == jobs.StatePending && got.Attempt != 0 {
			t.Errorf("a task that never started has attempt %d", got.Attempt)
		}
	}
	if states[jobs.StateSucceeded] != 1 || states[jobs.StatePending] != 2 {
		t.Errorf("states %v, want one succeeded and two pending", states)
	}
}

func TestDrainStopsWhatDoesNotEnd(t *testing.T) {
	for policy, want := range map[jobs.OnLost]jobs.State{jobs.LostFails: jobs.StateLost, jobs.LostRetries: jobs.StatePending} {
		t.Run(string(policy), func(t *testing.T) {
			st := sqlite(t).open(t)
			began := make(chan struct{}, 1)
			h := does(func(ctx context.Context, _ jobs.Task, _ io.Writer) error {
				began <- struct{}{}
				<-ctx.Done()
				return context.Cause(ctx)
			})
			r := start(t, st, nil, pool(h, func(p *jobs.Pool) { p.OnLost = policy }), scheduler.Options{ID: "a", DrainTimeout: 50 * time.Millisecond})
			id := enqueue(t, st, r, 1)[0]
			<-began
			if err := r.drain(); err != nil {
				t.Fatal(err)
			}
			if got := task(t, st, id); got.State != want || !strings.Contains(got.Reason, "drained") {
				t.Errorf("%s, reason %q; want %s, drained", got.State, got.Reason, want)
			}
		})
	}
}

// unresponsive is a command that ignores SIGTERM, and writes its number and the signal to files.
type unresponsive struct {
	jobs.Handler
	dir string
}

func newUnresponsive(t *testing.T, grace time.Duration) unresponsive {
	t.Helper()
	dir := t.TempDir()
	h, err := exechandler.New(exechandler.Command{
		Shell: `trap ': > asked' TERM; echo $$ > new && mv new pid; while :; do sleep 0.05; done`,
		Dir:   dir, StopGrace: grace,
	})
	if err != nil {
		t.Fatal(err)
	}
	d := unresponsive{h, dir}
	t.Cleanup(func() {
		if d.alive(t) {
			t.Error("the process is still there")
			d.end(t)
		}
	})
	return d
}

func (d unresponsive) end(t *testing.T) { _ = d.process(t).Kill() }

func (d unresponsive) wrote(name string) bool {
	_, err := os.Stat(filepath.Join(d.dir, name))
	return err == nil
}

func (d unresponsive) process(t *testing.T) *os.Process {
	text, err := os.ReadFile(filepath.Join(d.dir, "pid"))
	pid, notNumber := strconv.Atoi(strings.TrimSpace(string(text)))
	if err = errors.Join(err, notNumber); err != nil {
		t.Fatal(err)
	}
	p, err := os.FindProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (d unresponsive) alive(t *testing.T) bool {
	return d.wrote("pid") && d.process(t).Signal(syscall.Signal(0)) == nil
}

func TestDrainGivesACommandItsOwnGracePeriod(t *testing.T) {
	t.Parallel()
	for name, around := range map[string]func(jobs.Handler) jobs.Handler{"bare": nil, "wrapped": surrounded} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := sqlite(t).open(t)
			const grace = 3 * time.Second
			h := newUnresponsive(t, grace)
			set := pool(jobs.Wrap(h.Handler, around), func(p *jobs.Pool) { p.OnLost = jobs.LostFails })
			r := start(t, st, nil, set, scheduler.Options{ID: "a", DrainTimeout: 50 * time.Millisecond, StopGrace: 100 * time.Millisecond})
			id := enqueue(t, st, r, 1)[0]
			await.Until(t, "the command runs", func() bool { return h.wrote("pid") })
			began := time.Now()
			if err := r.drain(); err != nil {
				t.Error(err)
			}
			if took := time.Since(began); took < grace || h.alive(t) {
				t.Errorf("drained after %v, the process lives: %v; want it killed after %v", took, h.alive(t), grace)
			}
			if got := task(t, st, id); got.State != jobs.StateLost || got.Reason != "drained" {
				t.Errorf("%s, reason %q; want lost, drained", got.State, got.Reason)
			}
		})
	}
}

func TestDrainHasWorkKilledBeforeItGivesUp(t *testing.T) {
	t.Parallel()
	st := sqlite(t).open(t)
	began := make(chan struct{}, 1)
	h := does(func(ctx context.Context, _ jobs.Task, _ io.Writer) error {
		began <- struct{}{}
		<-ctx.Done()
		stop, _ := errors.AsType[*jobs.Stop](context.Cause(ctx))
		<-stop.Kill
		return stop
	})
	r := start(t, st, nil, pool(h, nil), scheduler.Options{ID: "a", DrainTimeout: 50 * time.Millisecond, StopGrace: 50 * time.Millisecond})
	id := enqueue(t, st, r, 1)[0]
	<-began
	if err := r.drain(); err != nil {
		t.Error(err)
	}
	if got := task(t, st, id); got.Reason != "drained" {
		t.Errorf("%s, reason %q; want drained", got.State, got.Reason)
	}
}

// claims is a store that claims in its own way.
type claims struct {
	ledger.Store
	claim func(ctx context.Context, c ledger.Claim) (ledger.Claimed, error)
}

func (s claims) Claim(ctx context.Context, c ledger.Claim) (ledger.Claimed, error) {
	return s.claim(ctx, c)
}

func TestHaltDoesNotWaitForTheStore(t *testing.T) {
	t.Parallel()
	st := sqlite(t).open(t)
	h := newUnresponsive(t, time.Hour)
	var hangs, waiting atomic.Bool
	slow := claims{st.Sides().Replica, func(ctx context.Context, c ledger.Claim) (ledger.Claimed, error) {
		if hangs.Load() {
			waiting.Store(true)
			<-ctx.Done()
			return ledger.Claimed{}, ctx.Err()
		}
		return st.Sides().Replica.Claim(ctx, c)
	}}
	r := start(t, slow, nil, pool(h.Handler, func(p *jobs.Pool) { p.Workers = 2 }), scheduler.Options{ID: "a", DrainTimeout: time.Hour})
	enqueue(t, st, r, 1)
	await.Until(t, "the command runs", func() bool { return h.wrote("pid") })
	hangs.Store(true)
	await.Until(t, "a claim hangs", func() bool { r.Wake("p"); return waiting.Load() })
	r.Halt()
	halted := time.Now()
	await.Until(t, "the process is gone", func() bool { return !h.alive(t) })
	if took := time.Since(halted); took > 3*time.Second {
		t.Errorf("the process lived for %v after the halt", took)
	}
	if err := r.drain(); err != nil {
		t.Error(err)
	}
}

// Whatever the replica waits for, a halt leaves work one second.
func TestHaltEndsWorkAtOnce(t *testing.T) {
	t.Parallel()
	const long = time.Hour
	for moment, c := range map[string]struct {
		drainTimeout, timeout time.Duration
		before                func(t *testing.T, r *replica, h unresponsive)
		reason                string
	}{
		"at work": {long, long, func(*testing.T, *replica, unresponsive) {}, "drained"},
		"after a timeout": {long, time.Second, func(t *testing.T, _ *replica, h unresponsive) {
			await.Until(t, "it is asked to end", func() bool { return h.wrote("asked") })
		}, "timeout"},
		"within the drain timeout": {long, long, func(t *testing.T, r *replica, _ unresponsive) {
			r.stop()
			await.Until(t, "it drains", func() bool { h := r.Health(); return !h[len(h)-1].Ready })
		}, "drained"},
		"within the grace period": {50 * time.Millisecond, long, func(t *testing.T, r *replica, h unresponsive) {
			r.stop()
			await.Until(t, "it is asked to end", func() bool { return h.wrote("asked") })
		}, "drained"},
	} {
		t.Run(moment, func(t *testing.T) {
			t.Parallel()
			st := sqlite(t).open(t)
			h := newUnresponsive(t, long)
			set := pool(h.Handler, func(p *jobs.Pool) { p.Timeout = c.timeout })
			r := start(t, st, nil, set, scheduler.Options{ID: "a", DrainTimeout: c.drainTimeout})
			id := enqueue(t, st, r, 1)[0]
			await.Until(t, "the command runs", func() bool { return h.wrote("pid") })
			c.before(t, r, h)
			halted := time.Now()
			r.Halt()
			select {
			case err := <-r.done:
				if r.done <- err; err != nil {
					t.Error(err)
				}
			case <-time.After(4 * time.Second):
				t.Error("Run did not return")
				h.end(t)
				return
			}
			if h.alive(t) {
				t.Errorf("the process lives after %v", time.Since(halted))
			}
			if got := task(t, st, id); !strings.Contains(got.Reason, c.reason) {
				t.Errorf("%s, reason %q; want %s", got.State, got.Reason, c.reason)
			}
		})
	}
}

// Nothing can end a function that ignores its context, but after a halt the replica does not wait for it.
func TestHaltDoesNotWaitForHandlersThatIgnoreTheirContext(t *testing.T) {
	t.Parallel()
	for moment, drainTimeout := range map[string]time.Duration{"drain timeout": time.Hour, "grace period": 10 * time.Millisecond} {
		t.Run(moment, func(t *testing.T) {
			t.Parallel()
			st := sqlite(t).open(t)
			asked, end := make(chan struct{}), make(chan struct{})
			h := does(func(ctx context.Context, _ jobs.Task, _ io.Writer) error {
				asked <- struct{}{}
				if drainTimeout < time.Hour {
					<-ctx.Done()
					asked <- struct{}{}
				}
				<-end
				return nil
			})
			r := start(t, st, nil, pool(h, nil), scheduler.Options{ID: "a", DrainTimeout: drainTimeout, StopGrace: time.Hour})
			id := enqueue(t, st, r, 1)[0]
			<-asked
			r.stop()
			if drainTimeout < time.Hour {
				<-asked
			}
			await.Until(t, "it drains", func() bool { h := r.Health(); return !h[len(h)-1].Ready })
			r.Halt()
			// One second, what is waited beyond it, and the settling of what can no longer be settled.
			select {
			case err := <-r.done:
				if r.done <- err; err == nil || !strings.Contains(err.Error(), "still running") || !strings.Contains(err.Error(), id) {
					t.Errorf("got %v, want it to name what still runs", err)
				}
			case <-time.After(20 * time.Second):
				t.Error("Run did not return")
			}
			close(end)
		})
	}
}

func TestAHaltBeforeRunEndsIt(t *testing.T) {
	s, err := scheduler.New(sqlite(t).open(t), nil, pool(&starts{}, nil), scheduler.Options{ID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	s.Halt()
	began := time.Now()
	if err := s.Run(t.Context()); err != nil || time.Since(began) > 5*time.Second {
		t.Errorf("%v after %v", err, time.Since(began))
	}
}

// A task that was claimed and has not started when the replica is told to stop at once is handed back.
func TestNothingStartsAfterAHalt(t *testing.T) {
	st := sqlite(t).open(t)
	ran := &starts{}
	var r atomic.Pointer[replica]
	halts := claims{st.Sides().Replica, func(ctx context.Context, c ledger.Claim) (ledger.Claimed, error) {
		got, err := st.Sides().Replica.Claim(ctx, c)
		if len(got.Tasks) > 0 {
			r.Load().Halt()
		}
		return got, err
	}}
	r.Store(start(t, halts, nil, pool(ran, nil), scheduler.Options{ID: "a"}))
	ids := enqueue(t, st, r.Load(), 5)
	if err := <-r.Load().done; err != nil {
		t.Error(err)
	}
	r.Load().done <- nil
	for _, id := range ids {
		if got := task(t, st, id); got.State != jobs.StatePending || got.Attempt != 0 {
			t.Errorf("%s after %d attempts; want it pending", got.State, got.Attempt)
		}
	}
	if ran.count() > 0 {
		t.Errorf("%d tasks ran", ran.count())
	}
}
