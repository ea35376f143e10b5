package triggers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/syskeys"
	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/memlock"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
)

// noted is a lock service that notes its calls.
type noted struct {
	*locks.Locker
	tried    [][]string // keys, by call
	last     locks.Request
	released []int // leases, by call
}

func (n *noted) TryAcquire(ctx context.Context, requests ...locks.Request) ([]locks.Attempt, error) {
	var keys []string
	for _, r := range requests {
		keys = append(keys, r.Key)
		n.last = r
	}
	n.tried = append(n.tried, keys)
	return n.Locker.TryAcquire(ctx, requests...)
}

func (n *noted) Release(ctx context.Context, leases ...*locks.Lease) error {
	n.released = append(n.released, len(leases))
	return n.Locker.Release(ctx, leases...)
}

// asked returns the calls since the last look.
func (n *noted) asked() (tried [][]string, released []int) {
	tried, released = n.tried, n.released
	n.tried, n.released = nil, nil
	return tried, released
}

// twoLockers is a replica on a lock service, none of whose loops run, and another client of that service.
func twoLockers(t *testing.T, required bool) (s *replica, mine *noted, other *locks.Locker, service *memlock.Service) {
	t.Helper()
	service = memlock.New()
	mine, other = &noted{Locker: replicatest.LockerOf(t, service)}, replicatest.LockerOf(t, service)
	s = replicaOn(t, replicatest.NewPicky(nil), replicatest.Blocked{})
	s.locks.Locks, s.locks.Required = mine, required
	return s, mine, other, service
}

// holdable returns which of these stripes the other client can acquire, and releases them.
func holdable(t *testing.T, other *locks.Locker, stripes ...int) (free []int) {
	t.Helper()
	for _, n := range stripes {
		got, err := other.TryAcquire(syskeys.Allow(t.Context()), locks.Request{Key: stripeKey(n)})
		if err != nil {
			t.Fatal(err)
		}
		if got[0].Lease != nil {
			free = append(free, n)
			if err := other.Release(t.Context(), got[0].Lease); err != nil {
				t.Fatal(err)
			}
		}
	}
	return free
}

// A replica locks the stripes that are its own, keeps the locks that it has, and releases those of stripes that
// are not its own any more. It calls for nothing while it has them all.
func TestAReplicaLocksItsStripes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, mine, other, _ := twoLockers(t, false)
		want := func(when string, owned []int, tried [][]string, released []int) {
			t.Helper()
			s.triggers.lockStripes(t.Context())
			gotTried, gotReleased := mine.asked()
			if diff := cmp.Diff(tried, gotTried); diff != "" {
				t.Errorf("%s: asked for (-want +got):\n%s", when, diff)
			}
			if diff := cmp.Diff(released, gotReleased); diff != "" {
				t.Errorf("%s: released (-want +got):\n%s", when, diff)
			}
			if diff := cmp.Diff(owned, s.triggers.Owned()); diff != "" {
				t.Errorf("%s: owns (-want +got):\n%s", when, diff)
			}
			if s.locks.Down() {
				t.Errorf("%s: the lock service counts as away", when)
			}
		}
		want("nothing is its own", nil, nil, nil)
		s.triggers.stripes.mine = []int{1, 2, 3}
		want("three are", []int{1, 2, 3}, [][]string{{"sys/stripe/01", "sys/stripe/02", "sys/stripe/03"}}, nil)
		if free := holdable(t, other, 1, 2, 3, 4); !slices.Equal(free, []int{4}) {
			t.Errorf("the other one can take %v", free)
		}
		token := s.triggers.stripes.held[2].Token()
		want("it has them all", []int{1, 2, 3}, nil, nil)

		theirs, err := other.TryAcquire(syskeys.Allow(t.Context()), locks.Request{Key: stripeKey(5)})
		if err != nil {
			t.Fatal(err)
		}
		s.triggers.stripes.mine = []int{2, 3, 5}
		want("another replica has not given one up yet", []int{2, 3}, [][]string{{"sys/stripe/05"}}, []int{1})
		if free := holdable(t, other, 1, 2, 3); !slices.Equal(free, []int{1}) {
			t.Errorf("the other one can take %v", free)
		}
		if err := other.Release(t.Context(), theirs[0].Lease); err != nil {
			t.Fatal(err)
		}
		want("the other one has given it up", []int{2, 3, 5}, [][]string{{"sys/stripe/05"}}, nil)
		if got := s.triggers.stripes.held[2].Token(); got != token {
			t.Errorf("a lock that it had was taken anew, with token %d after %d", got, token)
		}

		if err := mine.Locker.Release(t.Context(), s.triggers.stripes.held[3]); err != nil { // as if it were lost
			t.Fatal(err)
		}
		if got := s.triggers.Owned(); !slices.Equal(got, []int{2, 5}) {
			t.Errorf("with one lock lost it owns %v", got)
		}
		want("one was lost", []int{2, 3, 5}, [][]string{{"sys/stripe/03"}}, []int{1})

		s.triggers.Leave(t.Context())
		if _, released := mine.asked(); !slices.Equal(released, []int{3}) {
			t.Errorf("a replica that leaves releases %v, not all in one call", released)
		}
		if free := holdable(t, other, 2, 3, 5); len(free) != 3 || len(s.triggers.Owned()) > 0 {
			t.Errorf("a replica that has left owns %v, and others can take %v", s.triggers.Owned(), free)
		}
		want("it has left", nil, nil, nil)
		s.triggers.Leave(t.Context())
		if _, released := mine.asked(); len(released) > 0 {
			t.Errorf("a replica that has left releases %v once more", released)
		}
	})
}

// While the lock service is away the stripes are those that would be locked or, if it is required, those whose locks
// last; and the replica probes whether it is back also when no lock is missing.
func TestStripesWhileTheLockServiceIsAway(t *testing.T) {
	for required, c := range map[bool]struct {
		away  []int
		waits bool
	}{false: {[]int{1, 2}, false}, true: {[]int{1}, true}} {
		t.Run(fmt.Sprint("required ", required), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, mine, other, service := twoLockers(t, required)
				s.triggers.stripes.mine = []int{1}
				s.triggers.lockStripes(t.Context())
				if s.locks.Blocks() {
					t.Error("it waits for a lock service that is there")
				}
				s.triggers.stripes.mine = []int{1, 2}
				service.Stop()
				s.triggers.lockStripes(t.Context())
				if got := s.triggers.Owned(); !slices.Equal(got, c.away) || s.locks.Blocks() != c.waits || !s.locks.Down() {
					t.Errorf("away: owns %v, waits: %t, counts as away: %t", got, s.locks.Blocks(), s.locks.Down())
				}
				s.triggers.stripes.mine = []int{1}
				s.triggers.lockStripes(t.Context())
				if !s.locks.Down() {
					t.Error("it is back, though nothing has answered")
				}
				service.Start()
				time.Sleep(2 * time.Second) // the locker tries again
				mine.asked()
				s.triggers.lockStripes(t.Context())
				tried, released := mine.asked()
				if diff := cmp.Diff([][]string{{"sys/replica/a"}}, tried); diff != "" || s.locks.Down() || s.locks.Blocks() {
					t.Errorf("it is back, and counts as away: %t; asked for (-want +got):\n%s", s.locks.Down(), diff)
				}
				if want := (locks.Request{Key: "sys/replica/a", Meta: "a"}); mine.last != want {
					t.Errorf("asked for %+v, want %+v", mine.last, want)
				}
				probed, err := other.TryAcquire(syskeys.Allow(t.Context()), locks.Request{Key: "sys/replica/a"})
				if err != nil || probed[0].Lease == nil || !slices.Equal(released, []int{1}) {
					t.Errorf("what was asked for is still held: %v, released %v", err, released)
				}

				s.locks.Failed(locks.ErrUnavailable)
				s.triggers.probe(t.Context()) // the other one has it now
				if _, released := mine.asked(); len(released) > 0 || s.locks.Down() {
					t.Errorf("busy is an answer: counts as away: %t, released %v", s.locks.Down(), released)
				}
				s.triggers.probe(t.Context())
				if tried, _ := mine.asked(); len(tried) > 0 {
					t.Errorf("a service that is there is asked for %q", tried)
				}
			})
		})
	}
}

// answering is a lock service that gives these answers.
type answering struct {
	attempts []locks.Attempt
	err      error
}

func (a answering) TryAcquire(context.Context, ...locks.Request) ([]locks.Attempt, error) {
	return a.attempts, a.err
}

func (answering) Acquire(context.Context, ...locks.Request) ([]*locks.Lease, error) {
	return nil, errors.ErrUnsupported
}

func (answering) Release(context.Context, ...*locks.Lease) error { return nil }
func (answering) Caps() locks.Caps                               { return locks.Caps{Name: "answering"} }
func (answering) State() locks.State                             { return locks.State{} }

// A lock service that did not say of each key whether it is busy is away, unless this replica stopped asking.
func TestWhenTheLockServiceIsAway(t *testing.T) {
	busy, unknown := locks.Attempt{Err: locks.ErrBusy}, locks.Attempt{Err: fmt.Errorf("settling: %w", locks.ErrUnknown)}
	gone := fmt.Errorf("%w: cut off by the test", locks.ErrUnavailable)
	granted, err := replicatest.LockerOf(t, memlock.New()).TryAcquire(t.Context(), locks.Request{Key: "x"})
	if err != nil {
		t.Fatal(err)
	}
	lease := granted[0].Lease
	for what, c := range map[string]struct {
		answer answering
		was    error
		away   bool
	}{
		"all are busy":                    {answering{[]locks.Attempt{busy, busy}, nil}, gone, false},
		"one is unknown, and one granted": {answering{[]locks.Attempt{unknown, {Lease: lease}}, nil}, nil, true},
		"one is unknown":                  {answering{[]locks.Attempt{unknown, busy}, nil}, nil, true},
		"no answer":                       {answering{nil, gone}, nil, true},
		"no answer, and away before":      {answering{nil, gone}, gone, true},
		"it stopped asking":               {answering{nil, fmt.Errorf("try: %w", context.Canceled)}, nil, false},
		"it stopped asking what is away":  {answering{nil, fmt.Errorf("try: %w", context.Canceled)}, gone, true},
		"it stopped asking in between":    {answering{[]locks.Attempt{busy, {Err: context.Canceled}}, nil}, nil, false},
		"one is unknown, and away before": {answering{[]locks.Attempt{busy, unknown}, nil}, gone, true},
	} {
		s := replicaOn(t, replicatest.NewPicky(nil), replicatest.Blocked{})
		s.locks.Locks, s.triggers.stripes.mine = c.answer, []int{1, 2}
		if c.was != nil {
			s.locks.Failed(c.was)
		}
		s.triggers.lockStripes(t.Context())
		if got := s.locks.Down(); got != c.away {
			t.Errorf("%s: away: %t, want %t", what, got, c.away)
		}
	}
}

// A lock service that was not called yet counts as there, unless nothing may start without it: then the
// stripes are locked before anything starts. A service that is known to be away is away from the start.
func TestHowTheLockServiceIsMet(t *testing.T) {
	for what, c := range map[string]struct {
		required bool
		stopped  bool
		locked   []int
		away     bool
	}{
		"it is there":                       {false, false, nil, false},
		"it is there, and needed":           {true, false, []int{1, 2}, false},
		"it is away":                        {false, true, []int{1, 2}, true}, // by the row
		"it is away, and nothing may start": {true, true, nil, true},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, mine, _, service := twoLockers(t, c.required)
				s.triggers.stripes.mine = []int{1, 2}
				if c.stopped {
					service.Stop()
					_, _ = mine.Locker.TryAcquire(t.Context(), locks.Request{Key: "x"}) // so the client knows
				}
				s.triggers.MeetLocks(t.Context())
				if got := s.triggers.Owned(); !slices.Equal(got, c.locked) || s.locks.Down() != c.away {
					t.Errorf("owns %v, away: %t", got, s.locks.Down())
				}
			})
		})
	}
	for _, required := range []bool{false, true} {
		s := replicaOn(t, replicatest.NewPicky(nil), replicatest.Blocked{}) // its locks are rows of the store
		s.locks.Required, s.triggers.stripes.mine = required, []int{3, 4}
		s.triggers.MeetLocks(t.Context())
		s.locks.Failed(locks.ErrUnavailable) // of which there is none
		if got := s.triggers.Owned(); !slices.Equal(got, []int{3, 4}) || s.locks.Blocks() {
			t.Errorf("without a lock service it owns %v, waits: %t", got, s.locks.Blocks())
		}
	}
}

// The due times of a stripe are read once, and again when they were forgotten or the stripe was another replica's in
// between.
func TestWhichStripesAreRead(t *testing.T) {
	st := &stripes{}
	for _, c := range []struct {
		owned, forget, want []int
	}{
		{[]int{1, 2}, nil, []int{1, 2}},
		{[]int{1, 2}, nil, nil},
		{[]int{1, 2, 5}, nil, []int{5}},
		{[]int{1, 2, 5}, []int{2}, []int{2}},
		{[]int{1, 2, 5}, []int{1, 5, 7}, []int{1, 5}},
		{[]int{2}, nil, nil},
		{[]int{1, 2}, nil, []int{1}},
		{nil, nil, nil},
		{[]int{2}, nil, []int{2}},
	} {
		st.forget(c.forget...)
		if got := st.unread(c.owned); !slices.Equal(got, c.want) {
			t.Errorf("%v are owned, and %v were forgotten: reads %v, want %v", c.owned, c.forget, got, c.want)
		}
	}
}

// A replica that takes part has its share of the stripes, one that drains has none, and one that is not among the
// live ones has none either.
func TestTakePart(t *testing.T) {
	for what, c := range map[string]struct {
		live     []string
		draining bool
		share    int
	}{
		"alone":            {[]string{"a"}, false, ledger.Stripes},
		"with another one": {[]string{"a", "b"}, false, len(assign("a", []string{"a", "b"}))},
		"draining":         {[]string{"a"}, true, 0},
		"declared dead":    {[]string{"b"}, false, 0},
		"no replica lives": {nil, false, 0},
	} {
		st := &stripes{mine: []int{1}, live: []string{"x"}}
		if st.take("a", c.live, c.draining); len(st.mine) != c.share || !slices.Equal(st.live, c.live) {
			t.Errorf("%s: %d stripes, %v live", what, len(st.mine), st.live)
		}
	}
	if n := len(assign("a", []string{"a", "b"})); n == 0 || n == ledger.Stripes {
		t.Errorf("of two replicas one has %d stripes", n)
	}
}

// Replicas of different versions agree on the owner of a stripe, so this must never change.
func TestStripesAreAssignedAsEver(t *testing.T) {
	var owners string
	replicas := []string{"host-a", "host-b", "host-c"}
	for n := range ledger.Stripes {
		for _, id := range replicas {
			if rank(id, n, replicas) == 0 {
				owners += id[len(id)-1:]
			}
		}
	}
	if want := "abaccccbbcbaacaabccbbacbbcabbbbabcaabccccbccacaabccaaabbcbaccabc"; owners != want {
		t.Errorf("the owners are %s", owners)
	}
}
