package work

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/membership"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/plan"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
)

// The first call sets why and how an attempt is to stop. Later ones can only make it end sooner.
func TestAnAttemptIsToldToStopOnce(t *testing.T) {
	const never = 1000 * time.Hour
	type call struct{ after, killIn time.Duration } // killIn never: its own grace period
	for what, c := range map[string]struct {
		calls []call
		kill  time.Duration // since the first call; never: it is not killed
	}{
		"its own grace period":        {[]call{{0, never}}, never},
		"a moment":                    {[]call{{0, time.Minute}}, time.Minute - killMargin},
		"a moment after all":          {[]call{{0, never}, {time.Second, time.Minute}}, time.Second + time.Minute - killMargin},
		"a sooner moment":             {[]call{{0, time.Minute}, {time.Second, time.Second}}, 2*time.Second - killMargin},
		"a later moment":              {[]call{{0, time.Minute}, {time.Second, time.Hour}}, time.Minute - killMargin},
		"no moment any more":          {[]call{{0, time.Minute}, {time.Second, never}}, time.Minute - killMargin},
		"later, and then sooner":      {[]call{{0, time.Minute}, {0, time.Hour}, {0, time.Second}}, time.Second - killMargin},
		"a moment that is over":       {[]call{{0, -time.Second}}, 0},
		"sooner, and then in between": {[]call{{0, time.Hour}, {0, time.Second}, {0, time.Minute}}, time.Second - killMargin},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := &attempt{work: plan.Execution{Timeout: 10000 * time.Hour}}
				ctx, end := a.begin(t.Context())
				defer end()
				began := time.Now()
				for n, call := range c.calls {
					time.Sleep(call.after)
					killBy := time.Now().Add(call.killIn)
					if call.killIn == never {
						killBy = time.Time{}
					}
					if n == 0 {
						a.stop(stopDrained, "drained", killBy)
						if stop, is := errors.AsType[*jobs.Stop](context.Cause(ctx)); !is || stop.Reason != "drained" || !stop.KillBy.Equal(killBy) {
							t.Errorf("told %+v", stop)
						}
						continue
					}
					a.stop(stopExpired, "expired", killBy)
				}
				if why, reason := a.stoppedBy(); why != stopDrained || reason != "drained" {
					t.Errorf("stopped by %v, %q", why, reason)
				}
				stop, _ := errors.AsType[*jobs.Stop](context.Cause(ctx))
				killed := never
				select {
				case <-stop.Kill:
					killed = time.Since(began)
				case <-time.After(2 * time.Hour):
				}
				if killed != c.kill {
					t.Errorf("killed after %v, want %v", killed, c.kill)
				}
			})
		})
	}
}

// witness is a handler that notes when it is told to stop and when to end at once, and ends then, or at the end.
type witness struct {
	began        chan struct{}
	end          chan struct{} // not nil: it ignores its context, and ends when this is closed
	told, killed time.Time
}

func (w *witness) Run(ctx context.Context, _ jobs.Task, _ io.Writer) error {
	w.began <- struct{}{}
	<-ctx.Done()
	w.told = time.Now()
	stop, _ := errors.AsType[*jobs.Stop](context.Cause(ctx))
	<-stop.Kill
	w.killed = time.Now()
	if w.end != nil {
		<-w.end
	}
	return stop
}

func (*witness) Describe() string { return "witness" }

// The replica waits ten seconds for its last results, and then says what is not recorded.
func TestHowLongADrainWaitsForItsLastResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := recording(t, replicatest.NewPicky(replicatest.Away), 1)
		s.assume(&membership.Session{ID: "session", Trust: boottime.Awake().Add(time.Hour)})
		began := time.Now()
		err := s.work.Drain()
		const want = "scheduler: the last results were not recorded within 10s; their tasks are reaped when this replica's session expires"
		if took := time.Since(began); took != 10*time.Second || err == nil || err.Error() != want {
			t.Errorf("after %v: %v", took, err)
		}
	})
}

// Attempts may finish within the drain timeout, then have their grace period, and are told to end at once drainMargin
// after that. A halt shortens each of these: from then on attempts have haltGrace.
func TestHowLongADrainLeavesWork(t *testing.T) {
	const drain, grace = 3 * time.Second, 2 * time.Second
	for what, c := range map[string]struct {
		halt         time.Duration // 0: never
		unresponsive bool
		told, killed time.Duration
		ends         time.Duration
	}{
		"no halt":                      {0, false, drain, drain + grace + drainMargin, drain + grace + drainMargin},
		"halted in the drain timeout":  {drain / 2, false, drain / 2, drain/2 + haltGrace - killMargin, drain/2 + haltGrace - killMargin},
		"halted in the grace period":   {drain + grace/2, false, drain, drain + grace/2 + haltGrace - killMargin, drain + grace/2 + haltGrace - killMargin},
		"no halt, and it does not end": {0, true, drain, drain + grace + drainMargin, drain + grace + 2*drainMargin},
		"halted, and it does not end":  {drain / 2, true, drain / 2, drain/2 + haltGrace - killMargin, drain/2 + haltGrace + drainMargin},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &witness{began: make(chan struct{})}
				if c.unresponsive {
					w.end = make(chan struct{})
				}
				s := replicaOn(t, replicatest.NewPicky(nil), w)
				s.work.opt.DrainTimeout, s.work.opt.StopGrace = drain, grace
				s.assume(&membership.Session{ID: "session", Trust: boottime.Awake().Add(time.Hour)})
				recording, stop := context.WithCancel(t.Context())
				recorded := make(chan struct{})
				go func() { defer close(recorded); s.work.recorder.run(recording) }()
				s.work.slots.take("p", 1)
				s.work.start(t.Context(), claimed{task: &jobs.Task{ID: "1", Pool: "p"}, session: "session"})
				<-w.began
				began := time.Now()
				if c.halt > 0 {
					time.AfterFunc(c.halt, s.Halt)
				}
				err := s.work.Drain()
				took := time.Since(began)
				synctest.Wait() // what the witness has noted is there
				if told, killed := w.told.Sub(began), w.killed.Sub(began); told != c.told || killed != c.killed || took != c.ends {
					t.Errorf("told to stop after %v and to end at once after %v, drained after %v; want %v, %v, %v", told, killed, took, c.told, c.killed, c.ends)
				}
				if c.unresponsive == (err == nil) || c.unresponsive && !strings.HasSuffix(err.Error(), "after the last wait: task 1 of pool p") {
					t.Errorf("drain says %v", err)
				}
				if c.unresponsive {
					close(w.end)
				}
				synctest.Wait()
				stop()
				<-recorded
			})
		})
	}
}

// Tasks that wait for a worker when a replica drains are handed back at once, and not only when it leaves.
func TestADrainHandsBackWhatWaitsForAWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := replicatest.NewPicky(nil)
		s := recording(t, st, 0)
		s.assume(&membership.Session{ID: "session", Trust: boottime.Awake().Add(time.Hour)})
		for _, id := range []string{"1", "2"} {
			s.work.register.queue(claimed{task: &jobs.Task{ID: id, Pool: "p"}, session: "session", since: time.Now()})
		}
		if err := s.work.Drain(); err != nil {
			t.Fatal(err)
		}
		_, taken := st.Seen()
		if len(taken) != 2 || taken["1"].Verdict != ledger.HandBack || taken["2"].Verdict != ledger.HandBack || s.work.register.knows("1") {
			t.Errorf("%+v", taken)
		}
	})
}

// An attempt is told to stop when it has no more time left than its grace period, not sooner, and is killed when its time
// is over. One that has no bound any more has no time left.
func TestWhenAnAttemptIsStopped(t *testing.T) {
	for what, c := range map[string]struct {
		session string // of the attempt
		trust   time.Duration
		stopped bool
		killIn  time.Duration
	}{
		"just more than it gets": {"session", time.Second + time.Nanosecond, false, 0},
		"as much as it gets":     {"session", time.Second, true, time.Second},
		"less":                   {"session", time.Second / 2, true, time.Second / 2},
		"its time is over":       {"session", -time.Second, true, -time.Second},
		"of another session":     {"other", time.Hour, true, 0},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := replicaOn(t, replicatest.NewPicky(nil), replicatest.Blocked{})
				s.assume(&membership.Session{ID: "session", Trust: boottime.Awake().Add(c.trust)})
				a := &attempt{session: c.session, work: plan.Execution{Timeout: time.Hour}}
				ctx, end := a.begin(t.Context())
				defer end()
				s.work.stopBefore(a, time.Second)
				stop, stopped := errors.AsType[*jobs.Stop](context.Cause(ctx))
				if stopped != c.stopped || stopped && stop.KillBy.Sub(time.Now()) != c.killIn {
					t.Errorf("stopped: %v, %+v", stopped, stop)
				}
			})
		})
	}
}

// graceful is a handler with a grace period of its own.
type graceful struct{ replicatest.Blocked }

func (graceful) StopGrace() time.Duration { return time.Minute }

// A handler has the replica's grace period unless it has one of its own; neither is logged.
func TestWhoseGracePeriodHolds(t *testing.T) {
	for handler, want := range map[jobs.Handler]time.Duration{replicatest.Blocked{}: time.Second, graceful{}: time.Minute} {
		log := &replicatest.Warnings{}
		a := &attempt{task: &jobs.Task{}, work: plan.Execution{Handler: handler}}
		if got := a.grace(time.Second, slog.New(log)); got != want {
			t.Errorf("%T: %v, want %v", handler, got, want)
		}
		if said := log.Take(); len(said) > 0 {
			t.Errorf("%T: %q", handler, said)
		}
	}
}

// Of its bounds the last one holds, and that of a session only while it is the attempt's own and has not expired.
func TestTheLastBoundHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := membership.NewClock(0)
		now := time.Now()
		c.Observe(boottime.Awake(), now)
		in := func(d time.Duration) time.Time { return now.Add(d) }
		for what, x := range map[string]struct {
			a    *attempt
			want time.Duration
		}{
			"the session":                    {&attempt{session: "session"}, time.Minute},
			"the row, which is later":        {&attempt{session: "session", mayRun: in(time.Hour)}, time.Hour},
			"the session, which is later":    {&attempt{session: "session", mayRun: in(time.Second)}, time.Minute},
			"the row, of another session":    {&attempt{session: "other", mayRun: in(time.Second)}, time.Second},
			"the row, as the session died":   {&attempt{session: "session", orphaned: true, mayRun: in(time.Second)}, time.Second},
			"none, as the session died":      {&attempt{session: "session", orphaned: true}, 0},
			"none, as it is another session": {&attempt{session: "other"}, 0},
		} {
			end := x.a.deadline(&membership.Session{ID: "session", Trust: boottime.Awake().Add(time.Minute)}, c)
			if x.want == 0 != end.IsZero() {
				t.Errorf("%s: %+v", what, end)
			} else if left := end.Until().Round(time.Millisecond); x.want > 0 && left != x.want {
				t.Errorf("%s: %v left, want %v", what, left, x.want)
			}
		}
	})
}

// The attempts of an expired session are marked, and no others.
func TestOnlyTheAttemptsOfASessionDieWithIt(t *testing.T) {
	s := &Executor{register: newRegister()}
	mine, other := &attempt{task: &jobs.Task{ID: "1", Pool: "p"}, session: "died"}, &attempt{task: &jobs.Task{ID: "2", Pool: "p"}, session: "lives"}
	s.register.run(mine)
	s.register.run(other)
	s.SessionDied("died")
	if !mine.orphaned || other.orphaned {
		t.Errorf("orphaned: %v, %v; want the first alone", mine.orphaned, other.orphaned)
	}
}
