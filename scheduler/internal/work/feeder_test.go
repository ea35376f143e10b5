package work

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/syskeys"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/memlock"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/membership"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/plan"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/wake"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// answers is a store that gives these answers to looks and claims, and notes the calls.
type answers struct {
	ledger.Store
	all    []any // ledger.Claimed, ledger.Seen or an error; then there is nothing
	asked  []string
	last   ledger.Claim
	wanted int   // by that, once it was there
	cut    error // the end of its context before the last claim was answered
	on     func()
}

func (a *answers) next(asked string) (next any) {
	a.asked = append(a.asked, asked)
	if a.on != nil {
		a.on()
	}
	if len(a.all) > 0 {
		next, a.all = a.all[0], a.all[1:]
	}
	return next
}

func (a *answers) Claim(ctx context.Context, c ledger.Claim) (ledger.Claimed, error) {
	if a.last, a.wanted = c, 0; c.Wanted != nil {
		a.wanted = c.Wanted()
	}
	defer func() { a.cut = ctx.Err() }()
	asked := "claim"
	if c.Scope.Within != nil {
		asked = fmt.Sprint("claim ", c.Scope.Within.Priority)
	}
	switch next := a.next(asked).(type) {
	case ledger.Claimed:
		return next, nil
	case error:
		return ledger.Claimed{}, next
	}
	return ledger.Claimed{}, nil
}

func (a *answers) Look(_ context.Context, _ string, l ledger.Look) (ledger.Seen, error) {
	switch next := a.next("look").(type) {
	case ledger.Seen:
		return next, nil
	case error:
		return ledger.Seen{}, next
	}
	return ledger.Seen{}, nil
}

func (a *answers) check(t *testing.T, what string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, a.asked); diff != "" {
		t.Errorf("%s: asked (-want +got):\n%s", what, diff)
	}
	a.asked = nil
}

// fed is the feeder of a pool with 4 workers that all wait, on a store with these answers.
func fed(t *testing.T, all ...any) (*feeder, *answers) {
	t.Helper()
	st := &answers{Store: &memstore.Store{Database: memstore.New()}, all: all}
	s := replicaOn(t, st, replicatest.NewBlocked(100))
	s.assume(&membership.Session{ID: "session", Trust: boottime.Awake().Add(time.Hour)})
	s.members.SetLoaded()
	return s.work.feeder("p"), st
}

// took is a claim that got n tasks.
func took(n int, more bool) ledger.Claimed {
	c := ledger.Claimed{More: more}
	for i := range n {
		c.Tasks = append(c.Tasks, ledger.Started{Task: &jobs.Task{ID: fmt.Sprint("t", i), Pool: "p", Token: 1}})
	}
	return c
}

// tries is an Observer that notes how claims ended.
type tries struct {
	Observer
	all  []string
	last jobs.ClaimTry
}

func (m *tries) Claimed(c jobs.ClaimTry) { m.all, m.last = append(m.all, c.Result), c }

// claims has a feeder claim until there is nothing more to do. Nothing that it takes is started.
func claims(t *testing.T, f *feeder, want bool) {
	t.Helper()
	took := 0
	for f.claim(t.Context()) {
		if took++; took > 20 {
			t.Fatal("it claims for ever")
		}
	}
	if got := took > 0; got != want {
		t.Errorf("it claimed again: %t", got)
	}
	f.executor.register.unqueue("p", 0)
}

// held makes all workers of the pool busy, and leaves room for tasks claimed ahead.
func held(f *feeder) {
	f.executor.slots.take("p", 4)
	f.took = time.Millisecond
}

// A task that was claimed under a session that is replaced before the answer comes is handed back, and not started.
func TestWhatAnEarlierSessionClaimedIsHandedBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, st := fed(t, took(2, false))
		st.on = func() {
			f.executor.assume(&membership.Session{ID: "next", Trust: boottime.Awake().Add(time.Hour)})
		}
		f.claim(t.Context())
		synctest.Wait()
		if n := len(f.executor.register.attempts()); n > 0 {
			t.Fatalf("%d were started", n)
		}
		back := f.executor.recorder.take()
		if len(back) != 2 {
			t.Fatalf("%d were handed back", len(back))
		}
		for _, o := range back {
			if o.session != "session" || o.result.Verdict != ledger.HandBack {
				t.Errorf("%s: %s, under %s", o.result.TaskID, o.result.Verdict, o.session)
			}
		}
	})
}

// A feeder that was woken claims while there is more, without being woken again, and not once it is told to end.
func TestAFeederGoesOnWhileThereIsMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, st := fed(t, took(1, true), took(1, true), took(1, false), took(1, true), took(1, true), took(1, true))
		held(f)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); f.run(ctx) }()
		wake.Send(f.wake)
		synctest.Wait()
		st.check(t, "woken once", "claim", "claim", "claim")
		st.on = cancel
		wake.Send(f.wake)
		<-ended
		st.check(t, "told to end", "claim")
		f.executor.register.unqueue("p", 0)
	})
}

// A claim that failed is not repeated before the feeder is woken, though there is more and workers are free.
func TestAClaimThatFailsIsNotRepeated(t *testing.T) {
	f, st := fed(t, took(1, true), jobs.ErrUnavailable)
	held(f)
	f.claim(t.Context())
	f.executor.register.unqueue("p", 0)
	f.executor.slots.give("p", 4)
	for len(f.wake) > 0 {
		<-f.wake
	}
	if again := f.claim(t.Context()); again || len(f.wake) > 0 {
		t.Errorf("it claims again: %t, and is woken: %t", again, len(f.wake) > 0)
	}
	st.check(t, "twice", "claim", "claim")
}

// The fields of a claim, and its consequences.
func TestWhatAFeederClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, st := fed(t)
		held(f)
		m := &tries{Observer: unmeasured{}}
		f.executor.metrics = m
		outdated := false
		f.executor.on.Outdated = func() { outdated = true }
		for _, c := range []struct {
			got  any
			want bool // it claims again
		}{
			{took(2, true), true}, {took(2, false), false}, {took(0, true), false}, {took(0, false), false},
			{ledger.ErrOutdated, false}, {took(2, true), true}, {jobs.ErrUnavailable, false},
			{ledger.Claimed{Foreign: []jobs.Task{{Job: "x"}}}, false},
		} {
			f.unskip()
			st.all = []any{c.got}
			if got := f.claim(t.Context()); got != c.want {
				t.Errorf("%+v: claims again: %t", c.got, got)
			}
			wake, work := f.forPoll()
			back := c.got == any(ledger.ErrOutdated)
			if alone := f.more; wake == back || work != (!back && !alone) || alone != (c.want && len(f.executor.register.queues["p"]) > 0) {
				t.Errorf("%+v: the poll wakes it: %t, as there is work: %t; it goes on by itself: %t", c.got, wake, work, alone)
			}
			if away := !f.executor.storeAnswers(); away != (c.got == any(jobs.ErrUnavailable)) {
				t.Errorf("%+v: the store is away: %t", c.got, away)
			}
			if outdated != (c.got == any(ledger.ErrOutdated)) {
				t.Errorf("%+v: it asks what governs: %t", c.got, outdated)
			}
			outdated = false
			f.executor.member.StoreFailed(nil)
			f.executor.register.unqueue("p", 0)
		}
		if c := st.last; c.Session != "session" || c.Replica != "a" || c.Pool != "p" || c.ID == "" || !c.Guard ||
			!maps.Equal(c.Pools, map[string]ledger.Share{"p": {Hash: f.pool.Hash, Room: 4 * 50}}) || f.pool.Hash == "" {
			t.Errorf("claimed is %+v", c)
		}

		if want := []string{
			ledger.ClaimTook, ledger.ClaimTook, ledger.ClaimEmpty, ledger.ClaimEmpty, ledger.ClaimOutdated, ledger.ClaimTook, ledger.ClaimFailed, ledger.ClaimEmpty,
		}; !slices.Equal(m.all, want) {
			t.Errorf("metrics are told %q, not %q", m.all, want)
		}
		m.all = nil

		foreign := func(tasks int) ledger.Claimed {
			c := took(tasks, false)
			c.Foreign = []jobs.Task{{Job: "x"}}
			return c
		}
		f.unskip()
		f.skip(f.forgets, foreign(0).Foreign)
		for tasks, want := range map[int]bool{0: false, 1: true} {
			f.backOff(f.forgets, false)
			f.byKind, f.skipJobs = false, []string{"x"}
			st.all = []any{ledger.Seen{Work: &ledger.Window{}}, foreign(tasks)}
			f.seen = lookout{}
			f.claim(t.Context())
			f.executor.register.unqueue("p", 0)
			if wake, _ := f.forPoll(); wake != want {
				t.Errorf("%d tasks beside what is known to be of others: the poll wakes it: %t", tasks, wake)
			}
		}

		st.asked, m.all = nil, nil
		f.unskip()
		f.goBy(f.pool.Under(ledger.OtherPool{Name: "p"}))
		claims(t, f, false)
		st.check(t, "in a pool that no configuration has")
		f.goBy(f.pool.Governs())
		f.executor.assume(&membership.Session{ID: "session", Trust: boottime.Awake()})
		claims(t, f, false)
		st.check(t, "without a session")
		f.executor.assume(&membership.Session{ID: "session", Trust: boottime.Awake().Add(time.Hour)})
		f.executor.locks.Locks, f.executor.locks.Required = replicatest.Mute{}, true
		f.executor.locks.Failed(replicatest.ErrRefused)
		claims(t, f, false)
		st.check(t, "while it waits for the lock service")
		if len(m.all) > 0 {
			t.Errorf("metrics are told %q of no claims", m.all)
		}
		f.executor.locks.Failed(nil)

		service := memlock.New()
		f.executor.locks.Locks = replicatest.LockerOf(t, service)
		other := replicatest.LockerOf(t, service)
		for _, answer := range []any{jobs.ErrUnavailable, took(1, false)} {
			st.all = []any{answer}
			claims(t, f, false)
			st.check(t, "behind a lock", "claim")
			if st.last.Guard {
				t.Error("it locks the pool's row, too")
			}
			got, err := other.TryAcquire(syskeys.Allow(t.Context()), locks.Request{Key: "sys/pool/p"})
			if err != nil || got[0].Lease == nil {
				t.Fatalf("%v: the claim lock is not free: %v, %+v", answer, err, got)
			}
			if err := other.Release(t.Context(), got[0].Lease); err != nil {
				t.Fatal(err)
			}
		}
		f.executor.locks.Locks = nil
		f.took = 0
		claims(t, f, false)
		st.check(t, "without a worker that is free")
	})
}

// A feeder with tasks in its pool that it cannot run looks first, claims where the look found work while there is
// some, and looks again then, or when lookFor is over.
func TestAFeederLooksBeforeItClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		work := func(priority int) ledger.Seen { return ledger.Seen{Work: &ledger.Window{Priority: priority}} }
		f, st := fed(t)
		held(f)
		step := func(what string, again bool, all []any, want ...string) {
			t.Helper()
			st.all = all
			claims(t, f, again)
			st.check(t, what, want...)
		}
		theirs := ledger.Claimed{More: true, Foreign: []jobs.Task{{Kind: "typo"}}}
		step("nothing is met", true, []any{took(1, true), took(1, false)}, "claim", "claim")
		step("a kind is met", true, []any{theirs, ledger.Seen{}}, "claim", "look")
		if wake, isWork := f.forPoll(); !wake || isWork {
			t.Errorf("nothing was found: the poll wakes it: %t, as there is work: %t", wake, isWork)
		}
		step("there is something", true, []any{work(1), took(1, true), took(1, false), work(2), took(0, true)}, "look", "claim 1", "claim 1", "look", "claim 2")
		if _, isWork := f.forPoll(); !isWork {
			t.Error("something was found, and is no work")
		}
		step("nothing is claimed", false, []any{work(1), took(0, false)}, "look", "claim 1")
		step("what is found is taken by another", false, []any{work(1), took(0, true)}, "look", "claim 1")
		step("nothing is found", false, []any{ledger.Seen{}}, "look")
		step("some are passed", false, []any{ledger.Seen{Past: map[int]time.Time{0: time.Now()}}}, "look")
		if _, isWork := f.forPoll(); !isWork {
			t.Error("there is more behind, and it is no work")
		}
		step("the store is away", false, []any{jobs.ErrUnavailable}, "look")
		if f.executor.storeAnswers() {
			t.Error("a look that failed has not shown that the store is away")
		}
		step("the claim fails", false, []any{work(3), jobs.ErrUnavailable}, "look", "claim 3")
		step("soon after", true, []any{took(1, false)}, "claim 3", "look")
		step("the claim fails again", false, []any{work(3), jobs.ErrUnavailable}, "look", "claim 3")
		time.Sleep(lookFor)
		step("lookFor later", false, []any{jobs.ErrUnavailable}, "claim 3")
		time.Sleep(1)
		step("later", false, []any{work(4)}, "look", "claim 4")

		st.on = func() { st.on = nil; f.unskip() }
		step("the configuration changes meanwhile", false, []any{work(5)}, "look")
		if len(f.wake) == 0 {
			t.Error("it does not look again")
		}
		step("after it", false, []any{work(6)}, "look", "claim 6")
		f.unskip()
		f.byKind = false
		step("nothing is met again", false, nil, "claim")
		f.skip(f.forgets, []jobs.Task{{Job: "of others"}})
		step("a job is met", false, []any{work(7)}, "look", "claim 7")
	})
}

// As much is claimed ahead as the workers do within aheadFor, no more than a batch, and in a pool with limits a quarter of what they leave at
// most.
func TestHowMuchIsClaimed(t *testing.T) {
	f, _ := fed(t)
	check := func(what string, want int) {
		t.Helper()
		if got := f.wanted(); got != want {
			t.Errorf("%s: %d are wanted, not %d", what, got, want)
		}
	}
	check("nothing has ended", 4)
	for took, want := range map[time.Duration]int{
		aheadFor + 1: 4, aheadFor: 4 + 4, aheadFor / 2: 4 + 8, aheadFor/2 + 1: 4 + 4, time.Millisecond: 4 + 200, time.Microsecond: claimBatch,
	} {
		f.took = took
		check(took.String(), want)
	}
	f.took = aheadFor / 2
	refill(f, 5)
	check("some wait", 4+8-5)
	refill(f, 20)
	check("many wait", 0)
	refill(f, 0)
	f.governs.Limited = true
	check("there is a limit", 4)
	f.left = 12
	check("the limit leaves some", 4+3)
	f.left = 1000
	check("the limit is far away", 4+8)
	f.left = 0
	f.executor.slots.take("p", 3)
	check("three are busy", 1)

	f.took = 0
	for _, c := range [][2]time.Duration{{800, 800}, {1600, 900}, {0, 900 + (1-900)/8}} {
		us := c[0] * time.Microsecond
		if f.ended(us); c[0] > 0 && f.took != c[1]*time.Microsecond {
			t.Errorf("after an attempt of %v they take %v", us, f.took)
		}
	}
	f.took = 0
	if f.ended(0); f.took != time.Microsecond {
		t.Errorf("an attempt that takes nothing takes %v", f.took)
	}
}

// refill makes the queue of a feeder's pool n tasks long.
func refill(f *feeder, n int) {
	f.executor.register.unqueue("p", 0)
	for i := range n {
		f.executor.register.queue(claimed{task: &jobs.Task{ID: fmt.Sprint(i), Pool: "p"}, since: time.Now()})
	}
}

// The queue of a feeder is first in, first out; a worker that finds it low has more claimed, if there is more.
func TestWhatIsQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := fed(t)
		if _, ok := f.next(); ok {
			t.Error("there is something in an empty queue")
		}
		if f.startQueued(t.Context()); f.executor.slots.room("p") != 4 {
			t.Errorf("with nothing to start %d of 4 workers are free", f.executor.slots.room("p"))
		}
		refill(f, 2)
		for n := range 2 {
			c, ok := f.next()
			if !ok || c.task.ID != fmt.Sprint(n) || f.executor.register.waits(c.task.ID) || !f.executor.register.knows(c.task.ID) {
				t.Errorf("the next is %+v, %t", c, ok)
			}
		}
		f.took = aheadFor / 2 // 8 ahead
		for _, c := range []struct {
			more bool
			n    int
			want bool
		}{{true, 5, false}, {true, 4, true}, {false, 4, false}, {true, 0, true}} {
			refill(f, c.n)
			f.more = c.more
			if f.next(); len(f.wake) > 0 != c.want {
				t.Errorf("%+v: woken: %t", c, !c.want)
			}
			for len(f.wake) > 0 {
				<-f.wake
			}
		}
		for _, c := range []struct {
			got  ledger.Claimed
			want bool
		}{{took(1, true), true}, {took(1, false), false}, {took(0, true), false}} {
			f.executor.slots.take("p", 4)
			if f.push(t.Context(), nil, &membership.Session{ID: "mine"}, c.got, nil); f.more != c.want {
				t.Errorf("%+v leaves more behind: %t", c.got, f.more)
			}
			for _, got := range f.executor.register.unqueue("p", 0) {
				if len(c.got.Tasks) == 0 || got.task.ID != "t0" || got.session != "mine" || !got.since.Equal(time.Now()) {
					t.Errorf("queued is %+v", got)
				}
			}
		}
		refill(f, 2)
		time.Sleep(queuedFor / 2)
		f.executor.register.queue(claimed{task: &jobs.Task{ID: "young", Pool: "p"}, since: time.Now()})
		if time.Sleep(queuedFor/2 - 1); f.executor.register.queued("p") != 3 {
			t.Error("what has not waited long has gone")
		}
		f.handBackOverdue(queuedFor)
		if n := f.executor.register.queued("p"); n != 3 {
			t.Errorf("%d of 3 stay before it is time", n)
		}
		time.Sleep(1)
		f.handBackOverdue(queuedFor)
		if n := f.executor.register.queued("p"); n != 1 || !f.executor.register.holds("0") || !f.executor.register.holds("1") || !f.executor.register.waits("young") {
			t.Errorf("%d of 3 stay", n)
		}
		if f.handBackQueue(); f.executor.register.queued("p") != 0 || !f.executor.register.holds("young") {
			t.Error("the queue is not handed back")
		}
	})
}

// The poll leaves a pool alone for longer with each claim that gets nothing, up to maxBackoff, until one gets something.
func TestHowLongAPoolIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFeeder(nil, nil, &plan.Pool{})
		for _, want := range []time.Duration{500, 1000, 2000, 4000, 8000, 10000, 10000, 10000, 10000, 10000, 10000, 10000, 10000} {
			f.backOff(0, true)
			time.Sleep(want*time.Millisecond - 1)
			if wake, work := f.forPoll(); wake || work {
				t.Errorf("within %v ms the poll wakes it: %t, as there is work: %t", int64(want), wake, work)
			}
			time.Sleep(1)
			if wake, work := f.forPoll(); !wake || work {
				t.Errorf("after %v ms the poll wakes it: %t, as there is work: %t", int64(want), wake, work)
			}
		}
		f.backOff(0, true)
		f.backOff(0, false)
		if wake, work := f.forPoll(); !wake || !work {
			t.Errorf("after a claim that got something the poll wakes it: %t, as there is work: %t", wake, work)
		}
		f.backOff(0, true)
		f.unskip()
		if wake, work := f.forPoll(); !wake || !work {
			t.Errorf("with another configuration the poll wakes it: %t, as there is work: %t", wake, work)
		}
		f.backOff(1, true)
		f.backOff(0, false) // an answer of before
		if wake, work := f.forPoll(); wake || work {
			t.Errorf("after an answer of before the poll wakes it: %t, as there is work: %t", wake, work)
		}
	})
}

// Tasks that cannot be run are learned once: job by job, or one kind for all kinds.
func TestWhatIsLearned(t *testing.T) {
	f, _ := fed(t)
	job, other, kind := jobs.Task{Job: "a", Kind: "k"}, jobs.Task{Job: "b"}, jobs.Task{Kind: "k"}
	for n, c := range []struct {
		tasks   []jobs.Task
		learned bool
		jobs    []string
		kinds   []string
		met     bool
	}{
		{nil, false, nil, nil, false},
		{[]jobs.Task{job}, true, []string{"a"}, nil, false},
		{[]jobs.Task{job}, false, []string{"a"}, nil, false},
		{[]jobs.Task{other, job}, true, []string{"a", "b"}, nil, false},
		{[]jobs.Task{kind, job}, true, []string{"a", "b"}, []string{""}, true},
		{[]jobs.Task{kind, {}}, false, []string{"a", "b"}, []string{""}, true},
		{[]jobs.Task{{Job: "c"}, kind}, true, []string{"a", "b", "c"}, []string{""}, true},
	} {
		learned := f.skip(0, c.tasks)
		scope, asked := f.scope()
		if learned != c.learned || !slices.Equal(scope.SkipJobs, c.jobs) || !slices.Equal(scope.Kinds, c.kinds) || asked != 0 || f.executor.metUnknown.Load() != c.met {
			t.Errorf("%d: learned: %t, scope %+v", n, learned, scope)
		}
	}
	f.seen.nothing = true
	f.unskip()
	if scope, asked := f.scope(); len(scope.SkipJobs) > 0 || scope.Kinds == nil || asked != 1 || f.seen.nothing {
		t.Errorf("afterwards the scope is %+v, %d", scope, asked)
	}
}
