package membership

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// entry is a store that refuses to let a replica join until some session is expired, or for some time.
type entry struct {
	*crowd
	refuse error
	until  time.Time // zero: until a session was expired
	tries  int
}

func (e *entry) Join(context.Context, ledger.Member) (string, error) {
	e.tries++
	if len(e.declared()) > 0 || !e.until.IsZero() && !time.Now().Before(e.until) {
		return "new", nil
	}
	return "", fmt.Errorf("joining: %w", e.refuse)
}

func (e *entry) Beat(context.Context, string) (time.Time, error) { return time.Now(), nil }

// joins makes replica a join, with a session ttl of ten seconds, and returns how long that takes.
func joins(t *testing.T, ctx context.Context, st *entry, refuse error) (took time.Duration, err error) {
	t.Helper()
	st.Store, st.refuse = newStore(), refuse
	s := memberOn(t, st)
	s.opt.LockService = "redis"
	began := time.Now()
	err = s.Join(ctx)
	if joined := s.session.Load() != nil; joined != (err == nil) {
		t.Errorf("it has a session: %t, %v", joined, err)
	}
	return time.Since(began), err
}

// Where other sessions are in the way, a replica waits until they were silent for a session ttl, its own or theirs,
// and expires them; it gives up as soon as one of them sends a heartbeat. Sessions that are not in the way are left alone.
func TestWhatIsInTheWayOfAReplica(t *testing.T) {
	away := fmt.Errorf("%w: cut off by the test", jobs.ErrUnavailable)
	member := func(replica, locks, session string, beat int64, ttl time.Duration) ledger.Peer {
		return ledger.Peer{Member: ledger.Member{Replica: replica, LockService: locks, Host: "elsewhere", TTL: ttl}, Session: session, Beat: beat}
	}
	const ttl = 10 * time.Second
	second := func(began time.Time) int64 { return int64(time.Since(began) / time.Second) }
	for what, c := range map[string]struct {
		refuse error
		peers  func(began time.Time) ([]ledger.Peer, error)
		until  time.Duration // it may join without that
		stop   time.Duration // it is told to stop
		took   time.Duration
		err    error
		dead   []string
	}{
		"its id is in use by what is silent": {refuse: ledger.ErrReplicaLive, peers: func(time.Time) ([]ledger.Peer, error) {
			return []ledger.Peer{member("a", "redis", "theirs", 7, time.Second)}, nil
		}, took: ttl + time.Second, dead: []string{"theirs/7"}},
		"its session ttl is longer": {refuse: ledger.ErrReplicaLive, peers: func(time.Time) ([]ledger.Peer, error) {
			return []ledger.Peer{member("a", "redis", "theirs", 7, 15*time.Second)}, nil
		}, took: 16 * time.Second, dead: []string{"theirs/7"}},
		"its id is in use by what beats": {refuse: ledger.ErrReplicaLive, peers: func(began time.Time) ([]ledger.Peer, error) {
			return []ledger.Peer{member("a", "redis", "theirs", second(began), ttl)}, nil
		}, took: time.Second, err: ledger.ErrReplicaLive},
		"another lock service is used by what is silent": {refuse: ledger.ErrLockService, peers: func(time.Time) ([]ledger.Peer, error) {
			return []ledger.Peer{member("b", "zookeeper", "theirs", 7, ttl)}, nil
		}, took: ttl + time.Second, dead: []string{"theirs/7"}},
		"another lock service is used by what beats": {refuse: ledger.ErrLockService, peers: func(began time.Time) ([]ledger.Peer, error) {
			return []ledger.Peer{member("b", "zookeeper", "theirs", second(began), ttl)}, nil
		}, took: time.Second, err: ledger.ErrLockService},
		"others beat, or are silent, or dead": {refuse: ledger.ErrReplicaLive, peers: func(began time.Time) ([]ledger.Peer, error) {
			dead := member("a", "redis", "dead", 3, ttl)
			dead.Dead = true
			return []ledger.Peer{dead, member("b", "redis", "beats", second(began), ttl), member("c", "redis", "silent", 5, ttl), member("a", "redis", "theirs", 7, ttl)}, nil
		}, took: ttl + time.Second, dead: []string{"theirs/7"}},
		"it leaves": {refuse: ledger.ErrReplicaLive, peers: func(time.Time) ([]ledger.Peer, error) {
			return []ledger.Peer{member("a", "redis", "theirs", 7, ttl)}, nil
		}, until: 3 * time.Second, took: 3 * time.Second},
		"the store goes away": {refuse: ledger.ErrReplicaLive, peers: func(began time.Time) ([]ledger.Peer, error) {
			if second(began) == 2 {
				return nil, away
			}
			return []ledger.Peer{member("a", "redis", "theirs", 7, ttl)}, nil
		}, took: 2 * time.Second, err: jobs.ErrUnavailable},
		"it is told to stop": {refuse: ledger.ErrReplicaLive, peers: func(time.Time) ([]ledger.Peer, error) {
			return []ledger.Peer{member("a", "redis", "theirs", 7, ttl)}, nil
		}, stop: 1200 * time.Millisecond, took: 1200 * time.Millisecond, err: ledger.ErrReplicaLive},
		"the store is away": {refuse: away, peers: func(time.Time) ([]ledger.Peer, error) { return nil, away }, err: jobs.ErrUnavailable},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				st := &entry{crowd: &crowd{look: func() ([]ledger.Peer, error) { return c.peers(began) }}}
				if c.until > 0 {
					st.until = began.Add(c.until)
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if c.stop > 0 {
					time.AfterFunc(c.stop, cancel)
				}
				took, err := joins(t, ctx, st, c.refuse)
				if took != c.took || !errors.Is(err, c.err) || !slices.Equal(st.declared(), c.dead) {
					t.Errorf("after %v: %v; declared dead are %v; want %v, %v, %v", took, err, st.declared(), c.took, c.err, c.dead)
				}
			})
		})
	}
}

// A session of this very process that never had a heartbeat is one whose answer was lost: it is expired at once. Any
// other session has its ttl.
func TestALostAnswerToAJoinIsNotWaitedFor(t *testing.T) {
	for what, c := range map[string]struct {
		refuse error
		other  func(p *ledger.Peer)
		fails  bool // to expire it
		atOnce bool
	}{
		"its own":                      {ledger.ErrReplicaLive, func(*ledger.Peer) {}, false, true},
		"of another replica":           {ledger.ErrReplicaLive, func(p *ledger.Peer) { p.Replica = "b" }, false, false},
		"on another host":              {ledger.ErrReplicaLive, func(p *ledger.Peer) { p.Host += "-2" }, false, false},
		"since the machine started":    {ledger.ErrReplicaLive, func(p *ledger.Peer) { p.BootID += "-2" }, false, false},
		"of another process":           {ledger.ErrReplicaLive, func(p *ledger.Peer) { p.PID++ }, false, false},
		"of a process with its number": {ledger.ErrReplicaLive, func(p *ledger.Peer) { p.PIDStart++ }, false, false},
		"it has beaten":                {ledger.ErrReplicaLive, func(p *ledger.Peer) { p.Beat = 1 }, false, false},
		"it is dead":                   {ledger.ErrReplicaLive, func(p *ledger.Peer) { p.Dead = true }, false, false},
		"something else is in the way": {ledger.ErrLockService, func(*ledger.Peer) {}, false, false},
		"it cannot be declared dead":   {ledger.ErrReplicaLive, func(*ledger.Peer) {}, true, false},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := ledger.Peer{Member: memberOn(t, newStore()).describe(), Session: "lost"}
				c.other(&p)
				st := &entry{crowd: &crowd{wins: c.fails, look: func() ([]ledger.Peer, error) { return []ledger.Peer{p}, nil }}}
				st.until = time.Now().Add(4 * time.Second)
				took, err := joins(t, t.Context(), st, c.refuse)
				if err != nil || c.atOnce && took != 0 || !c.atOnce && took == 0 {
					t.Errorf("it joined after %v: %v", took, err)
				}
				if n := len(st.declared()); (n > 0) != (c.atOnce || c.fails) {
					t.Errorf("%d sessions were declared dead", n)
				}
			})
		})
	}
}

// hanging is a store that does not answer this one question.
type hanging struct {
	*entry
	join, beat bool
	slow       bool // it answers a join just within its timeout
}

func (h hanging) Join(ctx context.Context, m ledger.Member) (string, error) {
	if h.join {
		<-ctx.Done()
		return "", fmt.Errorf("%w: %w", jobs.ErrUnavailable, ctx.Err())
	}
	if h.slow {
		end, _ := ctx.Deadline()
		time.Sleep(time.Until(end) - 1)
	}
	return "new", nil
}

func (h hanging) Beat(ctx context.Context, session string) (time.Time, error) {
	if h.beat {
		<-ctx.Done()
		return time.Time{}, fmt.Errorf("%w: %w", jobs.ErrUnavailable, ctx.Err())
	}
	return h.entry.Beat(ctx, session)
}

// A store that does not answer is an error within ten seconds.
func TestAStoreThatDoesNotAnswerAJoin(t *testing.T) {
	for _, st := range []hanging{{join: true}, {beat: true}, {slow: true, beat: true}} {
		synctest.Test(t, func(t *testing.T) {
			st.entry = &entry{crowd: &crowd{Store: newStore()}}
			s := memberOn(t, st)
			began := time.Now()
			err := s.Join(t.Context())
			if took := time.Since(began); !errors.Is(err, jobs.ErrUnavailable) || took > 10*time.Second {
				t.Errorf("after %v: %v", took, err)
			}
		})
	}
}
