package membership

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// crowd is a store with these sessions in it.
type crowd struct {
	*memstore.Store
	look func() ([]ledger.Peer, error)

	mu       sync.Mutex
	dead     []string // expired by this replica, "session/beat"
	wins     bool     // another replica is always first
	draining []string // SetDraining was called for them
}

func (c *crowd) Peers(context.Context) ([]ledger.Peer, error) { return c.look() }

func (c *crowd) Expire(_ context.Context, session string, beat int64) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dead = append(c.dead, fmt.Sprintf("%s/%d", session, beat))
	return !c.wins, nil
}

func (c *crowd) SetDraining(_ context.Context, session string) error {
	c.draining = append(c.draining, session)
	return nil
}

func (c *crowd) declared() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.dead)
}

// among is replica a with a session of an hour and steady heartbeats, none of whose loops run, among these sessions.
func among(t *testing.T, look func() ([]ledger.Peer, error)) (*Member, *crowd) {
	t.Helper()
	st := &crowd{Store: newStore(), look: look}
	s := memberOn(t, st)
	s.session.Store(&Session{"mine", boottime.Awake().Add(time.Hour), boottime.Awake().Add(-time.Hour)})
	s.SetLoaded()
	return s, st
}

func peerOf(replica, session string, beat int64) ledger.Peer {
	return ledger.Peer{Member: ledger.Member{Replica: replica, TTL: 10 * time.Second}, Session: session, Beat: beat}
}

// A session is expired once its heartbeat was seen unchanged for a session ttl, its own or that of the replica that
// looks, whichever is longer; and only while the replica that looks could read the store, and all its own heartbeats
// were acknowledged.
func TestWhichSessionsExpire(t *testing.T) {
	const never = -1
	beats := func(n int) int64 { return int64(n) }
	silent := func(int) int64 { return 7 }
	for what, c := range map[string]struct {
		beat func(second int) int64
		peer func(p *ledger.Peer)
		own  func(s *Member, second int) (sees bool)
		dead int // in this second; never
	}{
		"it beats":                  {beat: beats, dead: never},
		"it stands still":           {beat: silent, dead: 10},
		"it beats until it stops":   {beat: func(n int) int64 { return int64(min(n, 4)) }, dead: 14},
		"its ttl is longer":         {beat: silent, peer: func(p *ledger.Peer) { p.TTL = 15 * time.Second }, dead: 15},
		"its ttl is shorter":        {beat: silent, peer: func(p *ledger.Peer) { p.TTL = time.Second }, dead: 10},
		"it is known to be dead":    {beat: silent, peer: func(p *ledger.Peer) { p.Dead = true }, dead: never},
		"it is this replica itself": {beat: silent, peer: func(p *ledger.Peer) { p.Session = "mine" }, dead: never},
		"an own beat was not taken": {beat: silent, dead: 16, own: func(s *Member, second int) bool {
			ses := *s.session.Load()
			switch second {
			case 5:
				ses.steady = boottime.Instant{}
			case 6:
				ses.steady = boottime.Awake()
			}
			s.session.Store(&ses)
			return true
		}},
		"no own beat is taken for a while": {beat: silent, dead: 22, own: func(s *Member, second int) bool {
			ses := *s.session.Load()
			switch second {
			case 5:
				ses.steady = boottime.Instant{}
			case 12:
				ses.steady = boottime.Awake()
			}
			s.session.Store(&ses)
			return true
		}},
		"an own beat was not taken between two looks": {beat: silent, dead: 15, own: func(s *Member, second int) bool {
			if second == 5 {
				ses := *s.session.Load()
				ses.steady = boottime.Awake()
				s.session.Store(&ses)
			}
			return true
		}},
		"the store was not read for five seconds": {beat: silent, dead: 10, own: func(_ *Member, second int) bool { return second <= 2 || second >= 7 }},
		"the store was not read for six seconds":  {beat: silent, dead: 18, own: func(_ *Member, second int) bool { return second <= 2 || second >= 8 }},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, st := among(t, nil)
				all := heartbeats{}
				dead := never
				for second := range 30 {
					p := peerOf("b", "theirs", c.beat(second))
					if c.peer != nil {
						c.peer(&p)
					}
					if c.own == nil || c.own(s, second) {
						s.expirePeers(t.Context(), all, []ledger.Peer{peerOf("gone", "gone", 1), p, peerOf("c", "lives", int64(second))})
					}
					st.dead = slices.DeleteFunc(st.dead, func(d string) bool { return d == "gone/1" })
					if len(st.dead) > 0 {
						dead = second
						if want := []string{fmt.Sprintf("theirs/%d", p.Beat)}; !slices.Equal(st.dead, want) {
							t.Errorf("declared dead are %v, want %v", st.dead, want)
						}
						break
					}
					time.Sleep(time.Second)
				}
				if dead != c.dead {
					t.Errorf("declared dead in second %d, want %d", dead, c.dead)
				}
			})
		})
	}
}

// A session that had a heartbeat after all, or that another replica expired first, is not counted.
func TestOnlyOwnExpiriesAreCounted(t *testing.T) {
	s, st := among(t, nil)
	said := 0
	s.on.Expired = func() { said++ }
	for n, wins := range []bool{true, false} {
		st.wins = wins
		s.expire(t.Context(), peerOf("b", "theirs", 7), time.Minute)
		if got := int(s.expired.Load()); got != n {
			t.Errorf("%d are counted, want %d", got, n)
		}
		if said != n {
			t.Errorf("said %d times, want %d", said, n)
		}
	}
}

// A replica looks each second; a look that fails does not count, and changes nothing about what was seen before. Whenever
// sessions come, go, or load another configuration, it calls Changed.
func TestWhatAReplicaSeesOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		began, last := time.Now(), -1
		var s *Member
		var st *crowd
		var changes []int
		changed := false
		s, st = among(t, func() ([]ledger.Peer, error) {
			mu.Lock()
			defer mu.Unlock()
			second := int(time.Since(began) / time.Second)
			if second == last {
				t.Errorf("it looks twice in second %d", second)
			}
			last = second
			if changed {
				changed = false
				changes = append(changes, second-1)
			}
			if second == 8 {
				return nil, fmt.Errorf("%w: cut off by the test", jobs.ErrUnavailable)
			}
			self, silent := peerOf("a", "mine", int64(second)), peerOf("b", "theirs", 7)
			if second >= 3 {
				self.Config = 2
			}
			peers := []ledger.Peer{self, silent}
			switch {
			case second >= 10: // it was started again
				peers = append(peers, peerOf("c", "third again", int64(second)))
			case second >= 5:
				peers = append(peers, peerOf("c", "third", int64(second)))
			}
			if len(st.declared()) > 0 {
				peers[1].Dead = true
			}
			return peers, nil
		})
		s.on.Changed = func() { mu.Lock(); changed = true; mu.Unlock() }
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); s.Watch(ctx) }()
		time.Sleep(14*time.Second + 500*time.Millisecond)
		stop()
		<-ended
		mu.Lock()
		defer mu.Unlock()
		if last != 14 {
			t.Errorf("the last look was in second %d", last)
		}
		// The first look is one second after the start.
		if diff := cmp.Diff([]int{1, 3, 5, 10, 12}, changes); diff != "" {
			t.Errorf("the replicas changed after the looks of these seconds (-want +got):\n%s", diff)
		}
		if got := st.declared(); !slices.Equal(got, []string{"theirs/7"}) {
			t.Errorf("declared dead are %v", got)
		}
	})
}

// Live replicas that do not drain take part. A replica that drains calls SetDraining again while the store does not know it.
func TestWhichReplicasTakePart(t *testing.T) {
	drains := func(p ledger.Peer) ledger.Peer { p.Draining = true; return p }
	dead := func(p ledger.Peer) ledger.Peer { p.Dead = true; return p }
	self, other := peerOf("a", "mine", 1), peerOf("b", "theirs", 1)
	away := fmt.Errorf("%w: cut off by the test", jobs.ErrUnavailable)
	for what, c := range map[string]struct {
		peers    []ledger.Peer
		err      error
		draining bool
		live     []string
		told     []string // SetDraining was called for them
	}{
		"both work":                         {[]ledger.Peer{self, other}, nil, false, []string{"a", "b"}, nil},
		"the other one drains":              {[]ledger.Peer{self, drains(other)}, nil, false, []string{"a"}, nil},
		"the other one is dead":             {[]ledger.Peer{self, dead(other)}, nil, false, []string{"a"}, nil},
		"it drains, and the store knows":    {[]ledger.Peer{drains(self), other}, nil, true, []string{"b"}, nil},
		"it drains, and the store does not": {[]ledger.Peer{self, other}, nil, true, []string{"a", "b"}, []string{"mine"}},
		"the store is away":                 {nil, away, false, []string{"before"}, nil},
	} {
		s, st := among(t, func() ([]ledger.Peer, error) { return c.peers, c.err })
		live := []string{"before"}
		s.on.Peers = func(now []string) { live = now }
		if c.draining {
			s.Drain()
		}
		seen := s.ReadPeers(t.Context())
		if len(seen) != len(c.peers) || !slices.Equal(live, c.live) || !slices.Equal(st.draining, c.told) {
			t.Errorf("%s: sees %d, live are %v; told to drain: %v", what, len(seen), live, st.draining)
		}
		if want := slices.Contains(c.live, "b"); (s.Others() == 1) != want || s.Others() > 1 {
			t.Errorf("%s: %d others take part", what, s.Others())
		}
		if ready := s.health.store.err == nil; ready != (c.err == nil) {
			t.Errorf("%s: the store is there: %t", what, ready)
		}
	}
}

// The log names the replica whose session expired, and for how long it was silent.
func TestWhatIsLoggedOfAnExpiredSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		peer := peerOf("b", "theirs", 7)
		peer.Host = "elsewhere"
		s, _ := among(t, nil)
		log := &replicatest.Lines{}
		s.log = slog.New(log)
		seen := heartbeats{}
		for range 6 {
			s.expirePeers(t.Context(), seen, []ledger.Peer{peer})
			time.Sleep(2 * time.Second)
		}
		if want, got := []string{"a replica's session expired; its tasks are reaped replica=b silent=10s"}, log.Take(); !slices.Equal(got, want) {
			t.Errorf("logged is %q, want %q", got, want)
		}
	})
}
