package scheduler

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/wake"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// asserting is a store with given answers about which configuration governs.
type asserting struct {
	*memstore.Store
	answer func(n int) (ledger.Assertion, error) // to the n-th question, from 0

	mu    sync.Mutex
	began time.Time
	asked []int // when, in seconds
}

func (a *asserting) Assert(context.Context, string, ledger.Definitions) (ledger.Assertion, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked = append(a.asked, int(time.Since(a.began).Round(time.Second)/time.Second))
	return a.answer(len(a.asked) - 1)
}

func (a *asserting) when() []int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.asked)
}

// A replica asks again soon while a newer one may still be writing, seldom while they differ, each second while
// the store is away, and not at all once it governs or nothing differs.
func TestGoverningIsAskedAgain(t *testing.T) {
	differ := func(names ...string) ledger.Assertion { return ledger.Assertion{Jobs: names} }
	for name, c := range map[string]struct {
		answer  func(n int) (ledger.Assertion, error)
		asked   []int
		foreign int // in the end
	}{
		"governs":         {func(int) (ledger.Assertion, error) { return ledger.Assertion{Governs: true}, nil }, []int{0}, 0},
		"nothing differs": {func(int) (ledger.Assertion, error) { return differ(), nil }, []int{0, 3}, 0},
		"one differs":     {func(int) (ledger.Assertion, error) { return differ("x"), nil }, []int{0, 3, 33, 63}, 1},
		"more differ later": {func(n int) (ledger.Assertion, error) { return differ([]string{"x", "y", "z"}[:min(n, 2)+1]...), nil },
			[]int{0, 3, 6, 9, 39, 69}, 3},
		"the store is away": {func(n int) (ledger.Assertion, error) {
			if n < 3 {
				return differ("x", "y"), fmt.Errorf("%w: cut off by the test", jobs.ErrUnavailable)
			}
			return ledger.Assertion{Governs: true}, nil
		}, []int{0, 1, 2, 3}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := &asserting{Store: &memstore.Store{Database: memstore.New()}, answer: c.answer, began: time.Now()}
				s := replicaOn(t, st, replicatest.Blocked{})
				trusting(s)
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan struct{})
				go func() { defer close(ended); s.govern(ctx) }()
				wake.Send(s.wakeGovern)
				time.Sleep(70 * time.Second)
				if got := st.when(); !slices.Equal(got, c.asked) {
					t.Errorf("asked after %v s, want %v", got, c.asked)
				}
				if n := s.triggers.ForeignJobs(); n != c.foreign {
					t.Errorf("%d jobs are left to others, want %d", n, c.foreign)
				}
				stop()
				<-ended
			})
		})
	}
}

// What a replica leaves to a newer configuration is logged once, while it stays the same: jobs and pools apart, ten
// of each by name. When they are its own again nothing is logged. It asks again soon after each change, seldom while
// something is left.
func TestWhatIsSaidOfANewerConfiguration(t *testing.T) {
	const jobsSay, poolsSay = "jobs differ from another replica's newer configuration, and are left to that replica; give it the newer file",
		"handlers of pools differ from another replica's newer configuration, and their tasks are left to that replica; give it the newer file"
	var many []string
	for n := range 12 {
		many = append(many, fmt.Sprintf("j%02d", n))
	}
	pools := []ledger.OtherPool{{Name: "p", Hash: "other"}, {Name: "q", Hash: "other", Kinds: map[string]string{"fax": "of theirs"}}}
	steps := []struct {
		answer ledger.Assertion
		says   []string
		again  time.Duration // it asks by itself; 0: not at all
	}{
		{ledger.Assertion{Jobs: []string{"x"}}, []string{jobsSay + " jobs=1 such as=x"}, governAgain},
		{ledger.Assertion{Jobs: []string{"x"}}, nil, 10 * governAgain},
		{ledger.Assertion{Jobs: many}, []string{jobsSay + " jobs=12 such as=j00, j01, j02, j03, j04, j05, j06, j07, j08, j09"}, governAgain},
		{ledger.Assertion{Jobs: many, Pools: pools}, []string{poolsSay + " pools=2 such as=p (tasks without a kind), q (this replica does not have the pool)"}, governAgain},
		{ledger.Assertion{Jobs: many, Pools: pools}, nil, 10 * governAgain},
		{ledger.Assertion{Pools: pools}, nil, governAgain},
		{ledger.Assertion{Pools: pools}, nil, 10 * governAgain},
		{ledger.Assertion{Pools: pools[:1]}, []string{poolsSay + " pools=1 such as=p (tasks without a kind)"}, governAgain},
		{ledger.Assertion{}, nil, governAgain},
		{ledger.Assertion{Jobs: []string{"x"}, Pools: pools[1:]}, []string{jobsSay + " jobs=1 such as=x", poolsSay + " pools=1 such as=q (this replica does not have the pool)"}, governAgain},
		{ledger.Assertion{Governs: true}, nil, 0},
	}
	synctest.Test(t, func(t *testing.T) {
		st := &asserting{Store: &memstore.Store{Database: memstore.New()}}
		st.answer = func(n int) (ledger.Assertion, error) { return steps[min(n, len(steps)-1)].answer, nil }
		log := &replicatest.Warnings{}
		s := replicaOn(t, st, replicatest.Blocked{})
		s.log = slog.New(log)
		trusting(s)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); s.govern(ctx) }()
		wake.Send(s.wakeGovern)
		for n, step := range steps {
			synctest.Wait()
			if got := len(st.when()); got != n+1 {
				t.Errorf("step %d: asked %d times", n, got)
			}
			if got := log.Take(); !slices.Equal(got, step.says) {
				t.Errorf("step %d: said is %q, want %q", n, got, step.says)
			}
			if step.again > 0 {
				time.Sleep(step.again - 1)
				if got := len(st.when()); got != n+1 {
					t.Errorf("step %d: it asks too soon", n)
				}
				time.Sleep(1)
				continue
			}
			time.Sleep(time.Hour)
			if got := len(st.when()); got != n+1 {
				t.Errorf("step %d: it asks again", n)
			}
		}
		stop()
		<-ended
	})
}

// The health says what is left to a newer configuration: jobs, pools whose handlers it has otherwise, or both; and which pools have other limits in
// it, which hold here.
func TestWhatAReplicaSaysIsLeftToANewerConfiguration(t *testing.T) {
	s := replicaOn(t, replicatest.NewPicky(nil), replicatest.Blocked{})
	limits := ledger.OtherPool{Name: "p", Hash: "newer", MaxRunning: 3, Kinds: s.plan.Load().Pools["p"].KindHashes}
	handler := ledger.OtherPool{Name: "p", Hash: "newer", Kinds: map[string]string{"": "of theirs"}}
	for what, c := range map[string]struct {
		jobs  []string
		pools []ledger.OtherPool
		says  string
	}{
		"nothing":   {nil, nil, ""},
		"a limit":   {nil, []ledger.OtherPool{limits}, "a newer configuration governs settings of 1 pools that this replica has otherwise: p"},
		"jobs":      {[]string{"x", "y"}, nil, "a newer configuration governs 2 jobs that this replica defines differently"},
		"a handler": {nil, []ledger.OtherPool{handler}, "a newer configuration governs tasks of 1 pools whose handlers it does not have: p (tasks without a kind)"},
		"a job, and handlers of two pools": {[]string{"x"}, []ledger.OtherPool{handler, {Name: "q", Hash: "newer"}},
			"a newer configuration governs 1 jobs that this replica defines differently, and tasks of 2 pools whose handlers it does not have: p (tasks without a kind), q (this replica does not have the pool)"},
	} {
		s.triggers.LeaveJobs(c.jobs)
		left, adjusted := s.goBy(c.pools), s.adjusted(c.pools)
		s.foreignPools.Store(&left)
		s.foreignSettings.Store(&adjusted)
		if got := s.Health()[3]; got.Name != "configuration" || !got.Ready || got.Detail != c.says {
			t.Errorf("%s: %+v, want %q", what, got, c.says)
		}
	}
}

// rereading is a store that answers that this replica governs, and notes which stripes' due times it reads after that.
type rereading struct {
	*asserting
	read [][]int
}

func (r *rereading) Upcoming(_ context.Context, stripes []int) ([]ledger.Upcoming, error) {
	r.read = append(r.read, stripes)
	return nil, nil
}

// After each assertion a replica reads the due times of its stripes again, since an edit may have moved
// them, and asks again for the jobs that it left alone. A store whose assertion fails is away.
func TestWhatFollowsWhenItIsSettledWhoGoverns(t *testing.T) {
	for _, away := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			st := &rereading{asserting: &asserting{Store: &memstore.Store{Database: memstore.New()}, began: time.Now()}}
			st.answer = func(int) (ledger.Assertion, error) {
				if away {
					return ledger.Assertion{}, fmt.Errorf("%w: cut off by the test", jobs.ErrUnavailable)
				}
				return ledger.Assertion{Governs: true}, nil
			}
			s := replicaOn(t, st, replicatest.Blocked{})
			trusting(s)
			s.triggers.Live([]string{"a", "b"})
			s.triggers.LeaveJobs([]string{"x"})
			ctx, stop := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer stop()
			wake.Send(s.wakeGovern)
			s.govern(ctx)
			if read := len(st.read) == 1 && slices.Equal(st.read[0], s.triggers.Owned()) && len(st.read[0]) < ledger.Stripes; read == away || len(st.read) > 1 {
				t.Errorf("away: %t; read the due times of %v", away, st.read)
			}
			if known := s.storeAnswers(); known == away {
				t.Errorf("away: %t; it counts as there: %t", away, known)
			}
			if left := s.triggers.ForeignJobs() > 0; left != away {
				t.Errorf("away: %t; what was left alone still is: %t", away, left)
			}
		})
	}
}

// A replica takes the kinds of a pool for which it has a handler that the governing configuration allows: all of its own
// configuration while that governs, else those that are the same in the newer one, and none while it drains.
func TestWhatAReplicaRuns(t *testing.T) {
	s, err := newOn(replicatest.NewPicky(nil), nil, jobs.Set{Pools: map[string]jobs.Pool{
		"mail": {Kinds: map[string]jobs.Handler{"welcome": replicatest.Blocked{}, "fax": replicatest.Blocked{}}},
	}}, Options{ID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	mail := s.plan.Load().Pools["mail"]
	row := ledger.OtherPool{Name: "mail", Hash: "newer", Kinds: map[string]string{"welcome": mail.KindHashes["welcome"], "sms": "x"}}
	if row.Kinds["welcome"] == "" {
		t.Fatal("its handler has no identity")
	}
	runs := func() (kinds []string) {
		for _, kind := range []string{"welcome", "fax", "sms", ""} {
			if s.work.Runs("mail", kind) {
				kinds = append(kinds, kind)
			}
		}
		return kinds
	}
	for _, c := range []struct {
		when string
		then func()
		want []string
	}{
		{"its own governs", func() {}, []string{"welcome", "fax"}},
		{"a newer one governs", func() { s.goBy([]ledger.OtherPool{row}) }, []string{"welcome"}},
		{"a newer one lacks the pool", func() { s.goBy([]ledger.OtherPool{{Name: "mail"}}) }, nil},
		{"it governs again", func() { s.goBy(nil) }, []string{"welcome", "fax"}},
		{"it drains", func() { s.members.Drain() }, nil},
	} {
		c.then()
		if got := runs(); !slices.Equal(got, c.want) || s.work.Runs("unknown", "welcome") {
			t.Errorf("%s: it runs %q, want %q", c.when, got, c.want)
		}
	}
}

// Edits are made by the time that decisions are made by: none while no clock is believed.
func TestDefinitionsNeedAClock(t *testing.T) {
	s := replicaOn(t, replicatest.NewPicky(nil), replicatest.Blocked{})
	if err := s.members.Join(t.Context()); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	d := s.definitions()
	if at, err := d.Now(now); err != nil || at.Sub(now).Abs() > time.Minute {
		t.Errorf("edits are made at %v, %v", at, err)
	}
	if at, err := d.Now(now.Add(time.Hour)); err == nil {
		t.Errorf("edits are made at %v, by a clock that is not believed", at)
	}
}
