package work

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/abort"
	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/internal/bound"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/membership"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
)

// observed is Observer that records what it is told of attempts.
type observed struct {
	unmeasured
	mu  sync.Mutex
	all []string
}

func (o *observed) add(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, fmt.Sprintf(format, args...))
}

func (o *observed) Started(t jobs.Task, _ time.Duration) { o.add("%s started", t.ID) }

func (o *observed) Ended(t jobs.Task, end jobs.State, took time.Duration) {
	o.add("%s ended %s after %v", t.ID, end, took)
}

func (o *observed) Recorded(t jobs.Task, end jobs.State, late bool) {
	o.add("%s recorded %s late=%t: %s", t.ID, end, late, t.State)
}

func (o *observed) HandedBack(t jobs.Task) { o.add("%s handed back: %s", t.ID, t.State) }

func (o *observed) Fenced(t jobs.Task, end jobs.State) { o.add("%s fenced %s: %s", t.ID, end, t.State) }

// executing is a replica with a trusted session and a pool p with one worker, which is taken. Its recorder does not run.
func executing(t *testing.T, h jobs.Handler, m Observer) *replica {
	t.Helper()
	s, err := newOn(replicatest.NewPicky(nil), nil, jobs.Set{Name: "prod", Pools: map[string]jobs.Pool{
		"p": {Handler: h, Workers: 1, Timeout: time.Minute, Retries: jobs.Retries{Limit: jobs.NoRetries}},
	}}, Options{ID: "a", Observer: m})
	if err != nil {
		t.Fatal(err)
	}
	s.assume(&membership.Session{ID: "session", Trust: boottime.Awake().Add(time.Hour)})
	s.work.slots.take("p", 1)
	return s
}

func claimOf(id string) claimed {
	return claimed{task: &jobs.Task{ID: id, Pool: "p", Attempt: 1, Token: 7}, session: "session", since: time.Now()}
}

// results are the results that wait to be recorded, by task.
func results(s *replica) map[string]ledger.Result {
	all := map[string]ledger.Result{}
	for batch := s.work.recorder.take(); len(batch) > 0; batch = s.work.recorder.take() {
		for _, o := range batch {
			all[o.result.TaskID] = o.result
		}
	}
	return all
}

// An attempt outlives the context that started it. Its handler is told the owner, the key of its effects, and until when
// it may run. When it has ended, the replica forgets it, and its worker is free.
func TestWhatAHandlerIsGiven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got jobs.Task
		var left time.Duration
		var given context.Context
		h := replicatest.Function(func(ctx context.Context, task jobs.Task, out io.Writer) error {
			got, given = task, ctx
			if bound := bound.Of(ctx); bound != nil {
				left = bound.Left()
			}
			fmt.Fprint(out, "done")
			time.Sleep(3 * time.Second)
			return ctx.Err()
		})
		m := &observed{}
		s := executing(t, h, m)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		s.work.start(ctx, claimOf("1"))
		if !s.work.register.knows("1") || s.work.slots.room("p") != 0 {
			t.Error("what is about to run is not known, or its worker is free")
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if got.ID != "1" || got.Replica != "a" || got.IdempotencyKey != (jobs.Task{ID: "1"}).IdempotencyKeyIn("prod") || got.Token != 7 {
			t.Errorf("given: %+v", got)
		}
		if left.Round(time.Minute) != time.Hour {
			t.Errorf("it may run for %v", left)
		}
		r := results(s)["1"]
		if r.State != jobs.StateSucceeded || string(r.Output) != "done" || r.Token != 7 {
			t.Errorf("it has ended as %+v", r)
		}
		if given.Err() == nil {
			t.Error("what it left behind is not told that it is over")
		}
		if !s.work.register.holds("1") || s.work.slots.room("p") != 1 {
			t.Errorf("its result waits: %v, %d workers are free", s.work.register.holds("1"), s.work.slots.room("p"))
		}
		if told := strings.Join(m.all, "; "); told != "1 started; 1 ended succeeded after 3s" {
			t.Errorf("told: %s", told)
		}
		select {
		case <-s.work.attempts.drain():
		default:
			t.Error("a drain waits for it still")
		}
	})
}

// A task that is about to run here is known from its start on.
func TestWhatIsStartedIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		s := executing(t, replicatest.Function(func(context.Context, jobs.Task, io.Writer) error { <-end; return nil }), nil)
		for n := range 1000 {
			id := fmt.Sprint(n)
			s.work.start(t.Context(), claimOf(id))
			if !s.work.register.knows(id) {
				t.Fatalf("task %s was started, and nobody knows it", id)
			}
		}
		close(end)
	})
}

// A handler is told to stop at its timeout, and not before.
func TestAnAttemptIsStoppedAtItsTimeout(t *testing.T) {
	for what, c := range map[string]struct {
		takes time.Duration
		want  string
	}{
		"a moment less": {time.Minute - 1, "ended succeeded "},
		"longer":        {time.Hour, "ended failed timeout after 1m0s"},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := executing(t, replicatest.Function(func(ctx context.Context, _ jobs.Task, _ io.Writer) error {
					select {
					case <-ctx.Done():
						return context.Cause(ctx)
					case <-time.After(c.takes):
						return nil
					}
				}), nil)
				began := time.Now()
				s.work.execute(t.Context(), claimOf("1"))
				r := results(s)["1"]
				if got := fmt.Sprintf("%s %s %s", r.Verdict, r.State, r.Reason); got != c.want || time.Since(began) != min(c.takes, time.Minute) {
					t.Errorf("%s after %v, want %s", got, time.Since(began), c.want)
				}
			})
		})
	}
}

// A handler that panics, or ends its goroutine, fails its attempt only: what is queued behind it runs on the same worker,
// which is free afterwards.
func TestAHandlerThatBreaksOffFailsOnlyItsAttempt(t *testing.T) {
	for what, c := range map[string]struct {
		breaks      func()
		err, output string
		code        reason.Code
	}{
		"panic":  {func() { panic("ouch") }, "panic: ouch", "before\npanic: ouch\n\ngoroutine ", reason.Panic},
		"Goexit": {runtime.Goexit, errGoexit.Error(), "before\n", reason.Error},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := executing(t, replicatest.Function(func(_ context.Context, task jobs.Task, out io.Writer) error {
					fmt.Fprintln(out, "before")
					if task.ID != "3" {
						c.breaks()
					}
					return nil
				}), nil)
				s.work.register.queue(claimOf("2"))
				s.work.register.queue(claimOf("3"))
				s.work.start(t.Context(), claimOf("1"))
				synctest.Wait()
				got := results(s)
				for _, id := range []string{"1", "2"} {
					if r := got[id]; r.State != jobs.StateFailed || r.Error != c.err || r.Code != c.code || !strings.HasPrefix(string(r.Output), c.output) {
						t.Errorf("task %s has ended as %+v with the output %q", id, r, r.Output)
					}
				}
				if r := got["3"]; r.State != jobs.StateSucceeded {
					t.Errorf("the task behind them has ended as %+v", r)
				}
				if s.work.slots.room("p") != 1 || len(s.work.register.attempts()) > 0 {
					t.Errorf("%d workers are free, %d attempts run", s.work.slots.room("p"), len(s.work.register.attempts()))
				}
				select {
				case <-s.work.attempts.drain():
				default:
					t.Error("a drain waits for them still")
				}
			})
		})
	}
}

// Shortly before the end of its session's trust a replica starts only tasks that may run for longer in any case. Tasks that
// would be told to stop at once are handed back, and are not lost.
func TestWhatWouldBeToldToStopIsNotStarted(t *testing.T) {
	for what, c := range map[string]struct {
		trust, mayRun time.Duration // besides the last grace; mayRun 0: no longer than the session is trusted
		starts        bool
	}{
		"the session has time":               {time.Millisecond, 0, true},
		"the session has none":               {0, 0, false},
		"the session has none, the job some": {0, time.Minute, true},
		"neither has any":                    {0, -time.Millisecond, false},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				started := false
				s := executing(t, replicatest.Function(func(context.Context, jobs.Task, io.Writer) error { started = true; return nil }), &observed{})
				s.members.Clock().Observe(boottime.Now(), time.Now())
				s.assume(&membership.Session{ID: "session", Trust: boottime.Awake().Add(s.work.lastGrace() + c.trust)})
				one := claimOf("1")
				if c.mayRun != 0 {
					one.until = s.members.Clock().Now().Add(s.work.lastGrace() + c.mayRun)
				}
				s.work.register.start(claimOf("1"))
				s.work.execute(t.Context(), one)
				if r := results(s)["1"]; started != c.starts || (r.Verdict == ledger.HandBack) != !c.starts {
					t.Errorf("started: %t, %+v", started, r)
				}
			})
		})
	}
}

// While a pool's work is left to others nothing of it is claimed, also not ahead, and tasks of a claim under way are handed
// back at once. After that it is claimed as before.
func TestNothingIsClaimedWhereThereIsNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := executing(t, replicatest.Function(func(context.Context, jobs.Task, io.Writer) error { return nil }), nil)
		f := s.work.feeder("p")
		f.took = time.Millisecond // of which workers do many within aheadFor
		before := f.wanted()
		if before < 2 {
			t.Fatalf("%d are wanted, and none ahead", before)
		}
		s.work.shortages.refused("p", abort.ErrNoRoom)
		if n := f.wanted(); n != 0 {
			t.Errorf("%d are wanted", n)
		}
		f.push(t.Context(), s.plan, s.work.member.Session(), ledger.Claimed{Tasks: []ledger.Started{{Task: claimOf("1").task}, {Task: claimOf("2").task}}}, nil)
		got := results(s)
		for _, id := range []string{"1", "2"} {
			if r, is := got[id]; !is || r.Verdict != ledger.HandBack {
				t.Errorf("task %s: %+v, want it handed back", id, r)
			}
		}
		time.Sleep(2 * shortageLeast)
		if n := f.wanted(); n != before {
			t.Errorf("once there is room %d are wanted, not %d", n, before)
		}
	})
}

// A task that finds no room is handed back with all that is queued behind it, and the pool is left to others for a while. A
// task that could be started ends that, and keeps its queue.
func TestWhatFindsNoRoomGoesBackWithItsQueue(t *testing.T) {
	for what, c := range map[string]struct {
		err    error
		back   bool // with its queue
		closed bool
	}{
		"no room":     {fmt.Errorf("fork: %w", abort.ErrNoRoom), true, true},
		"not started": {abort.ErrNotStarted, false, true}, // of an earlier refusal
		"it works":    {nil, false, false},
		"it fails":    {errors.New("failed"), false, false},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &observed{}
				s := executing(t, replicatest.Function(func(context.Context, jobs.Task, io.Writer) error { return c.err }), m)
				s.work.shortages.refused("p", abort.ErrNoRoom)
				time.Sleep(2 * shortageLeast)
				s.work.register.queue(claimOf("2"))
				s.work.register.queue(claimOf("3"))
				s.work.register.start(claimOf("1"))
				s.work.execute(t.Context(), claimOf("1"))
				got := results(s)
				handedBack := 0
				for _, id := range []string{"2", "3"} {
					if r, is := got[id]; is && r.Verdict == ledger.HandBack && r.Token == 7 {
						handedBack++
					}
				}
				if (handedBack == 2) != c.back || (s.work.register.queued("p") == 0) != c.back {
					t.Errorf("%d of 2 go back, %d stay", handedBack, s.work.register.queued("p"))
				}
				if !s.work.register.holds("1") || c.back != s.work.register.holds("2") {
					t.Error("what has ended is not to be recorded, or what is queued is")
				}
				if _, short := s.work.shortages.condition(); short != c.closed {
					t.Errorf("said to have no room: %v", short)
				}
				s.work.slots.give("p", 1)
				if n := s.work.slots.room("p"); n == 0 != c.back {
					t.Errorf("%d workers are free of one", n)
				}
			})
		})
	}
}

// An attempt that starts while its session is renewed is told the new time, too.
func TestAnAttemptThatStartsDuringARenewalIsTold(t *testing.T) {
	var left time.Duration
	s := executing(t, replicatest.Function(func(ctx context.Context, _ jobs.Task, _ io.Writer) error {
		left = bound.Of(ctx).Left()
		return nil
	}), nil)
	s.work.register.mu.Lock() // it waits here before the renewal can find it
	ended := make(chan struct{})
	go func() { defer close(ended); s.work.execute(context.Background(), claimOf("1")) }()
	time.Sleep(50 * time.Millisecond) // if it is not there yet it gets the new session from the start
	s.assume(&membership.Session{ID: "session", Trust: boottime.Awake().Add(2 * time.Hour)})
	s.work.register.mu.Unlock()
	<-ended
	if left < time.Hour {
		t.Errorf("it may run for %v", left)
	}
}

// gracious is a handler with a grace period of its own.
type gracious struct {
	witness
	grace time.Duration
}

func (g *gracious) StopGrace() time.Duration { return g.grace }

// A handler's own grace period is longer or shorter than the replica's.
func TestADrainLeavesAHandlerItsOwnGrace(t *testing.T) {
	for _, grace := range []time.Duration{time.Millisecond, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			h := &gracious{witness{began: make(chan struct{}, 1)}, grace}
			s := executing(t, h, nil)
			recording, stop := context.WithCancel(t.Context())
			go s.work.recorder.run(recording)
			defer stop()
			s.work.start(t.Context(), claimOf("1"))
			<-h.began
			if err := s.work.Drain(); err != nil {
				t.Error(err)
			}
			synctest.Wait()
			if got := h.killed.Sub(h.told); got != grace+drainMargin {
				t.Errorf("told to end at once %v after it was told to stop, want %v", got, grace+drainMargin)
			}
		})
	}
}

// Where attempts are short, more tasks are claimed than there are workers. A task that did not start does not count for that.
func TestWorkIsClaimedAheadWhereAttemptsAreShort(t *testing.T) {
	for what, c := range map[string]struct {
		takes time.Duration
		err   error
		ahead bool
	}{
		"short":       {time.Millisecond, nil, true},
		"long":        {2 * aheadFor, nil, false},
		"not started": {time.Millisecond, abort.ErrNotStarted, false},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := executing(t, replicatest.Function(func(context.Context, jobs.Task, io.Writer) error { time.Sleep(c.takes); return c.err }), nil)
				s.work.execute(t.Context(), claimOf("1"))
				s.work.slots.give("p", 1)
				if n := s.work.feeder("p").wanted(); (n > 1) != c.ahead || n < 1 {
					t.Errorf("%d are claimed for one worker", n)
				}
			})
		})
	}
}
