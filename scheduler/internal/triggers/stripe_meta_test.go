package triggers

import (
	"context"
	"log/slog"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/syskeys"
	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/memlock"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// called is a store with a namespace, which some calls return.
type called struct {
	ledger.Store
	names []string // "": an error
	asked int
}

func (c *called) Namespace(context.Context) (string, error) {
	c.asked++
	name := c.names[min(c.asked, len(c.names))-1]
	if name == "" {
		return "", replicatest.ErrRefused
	}
	return name, nil
}

// The locks of stripes name their replica and store, as soon as the store has returned its namespace; it is asked until
// then, and no more. Without a namespace the lock names the replica alone.
func TestWhatTheLockOfAStripeSays(t *testing.T) {
	mem := &memstore.Store{Database: memstore.New()}
	for what, c := range map[string]struct {
		st    ledger.Store
		metas []string
		asked int
	}{
		"it has no name":         {mem, []string{"a", "a"}, 0},
		"it says its name":       {&called{Store: mem, names: []string{"7f"}}, []string{"a of store 7f", "a of store 7f"}, 1},
		"it does not at first":   {&called{Store: mem, names: []string{"", "", "7f"}}, []string{"a", "a", "a of store 7f", "a of store 7f"}, 3},
		"its name is in another": {&called{Store: mem, names: []string{"7f of store 8"}}, []string{"a of store 7f of store 8"}, 1},
	} {
		s := replicaOn(t, c.st, replicatest.Blocked{})
		for n, want := range c.metas {
			if got := s.triggers.stripeMeta(t.Context()); got != want {
				t.Errorf("%s: lock %d says %q, want %q", what, n, got, want)
			}
		}
		if st, ok := c.st.(*called); ok && st.asked != c.asked {
			t.Errorf("%s: asked %d times", what, st.asked)
		}
	}
}

// A replica of another store that has locks of the same names is logged once. Other holders are not, nor does a replica
// that does not know its own store's namespace log any.
func TestWhoHoldsALockOfTheSameName(t *testing.T) {
	busy := func(metas ...string) (all []locks.Attempt) {
		for _, meta := range metas {
			all = append(all, locks.Attempt{Err: locks.ErrBusy, Holder: &locks.Info{Meta: meta}})
		}
		return all
	}
	const says = "a replica of another store has locks of the same names, and what is due here waits up to a second for them: " +
		"give each store a namespace of its own (name in the file, locks.Options.Namespace in Go)"
	for what, c := range map[string]struct {
		own  string
		met  [][]locks.Attempt
		said []string
	}{
		"granted":                   {"7f", [][]locks.Attempt{{{Lease: &locks.Lease{}}, {Err: locks.ErrUnknown}}}, nil},
		"of the same store":         {"7f", [][]locks.Attempt{busy("b of store 7f")}, nil},
		"of an older version":       {"7f", [][]locks.Attempt{busy("b")}, nil},
		"of another store":          {"7f", [][]locks.Attempt{busy("b", "c of store 7f", "d of store 8"), busy("e of store 9")}, []string{says + " holder=d its store=8 store=7f"}},
		"its own name is not known": {"", [][]locks.Attempt{busy("d of store 8")}, nil},
		"two of other stores":       {"7f", [][]locks.Attempt{busy("d of store 8", "e of store 9")}, []string{says + " holder=d its store=8 store=7f"}},
	} {
		s := replicaOn(t, &memstore.Store{Database: memstore.New()}, replicatest.Blocked{})
		log := &replicatest.Warnings{}
		s.triggers.log, s.triggers.storeID = slog.New(log), c.own
		for _, attempts := range c.met {
			s.triggers.meetOtherStore(attempts)
		}
		if diff := cmp.Diff(c.said, log.Take()); diff != "" {
			t.Errorf("%s: said (-want +got):\n%s", what, diff)
		}
	}
}

// Both happen where stripes are locked: the Meta that others read, and the log of theirs.
func TestStripesBesideThoseOfAnotherStore(t *testing.T) {
	service := memlock.New()
	other := replicatest.LockerOf(t, service)
	if got, err := other.TryAcquire(syskeys.Allow(t.Context()), locks.Request{Key: stripeKey(1), Meta: "b of store 8"}); err != nil || got[0].Lease == nil {
		t.Fatal(err, got)
	}
	s := replicaOn(t, &called{Store: &memstore.Store{Database: memstore.New()}, names: []string{"7f"}}, replicatest.Blocked{})
	log := &replicatest.Warnings{}
	s.triggers.log, s.locks.Locks, s.triggers.stripes.mine = slog.New(log), replicatest.LockerOf(t, service), []int{1, 2}
	s.triggers.lockStripes(t.Context())
	if got, err := other.TryAcquire(syskeys.Allow(t.Context()), locks.Request{Key: stripeKey(2)}); err != nil || got[0].Holder == nil || got[0].Holder.Meta != "a of store 7f" {
		t.Errorf("others see the lock of stripe 2 as %+v, %v", got, err)
	}
	if said := log.Take(); len(said) != 1 || !slices.Equal(s.triggers.Owned(), []int{2}) {
		t.Errorf("it owns %v, and says %q", s.triggers.Owned(), said)
	}
	s.triggers.Leave(t.Context())
}
