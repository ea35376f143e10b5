package membership

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/wake"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// pacemaker is a store whose heartbeats take their time, and fail when they are told to.
type pacemaker struct {
	*memstore.Store
	takes time.Duration
	ahead time.Duration     // the database's clock
	fail  func(n int) error // the n-th heartbeat, from 0

	mu     sync.Mutex
	began  time.Time
	beats  []time.Duration
	joined int
	member ledger.Member // that joined last
}

func (p *pacemaker) Join(_ context.Context, m ledger.Member) (string, error) {
	p.joined++
	p.member = m
	return fmt.Sprint("session ", p.joined), nil
}

func (p *pacemaker) Beat(ctx context.Context, _ string) (time.Time, error) {
	p.mu.Lock()
	n := len(p.beats)
	p.beats = append(p.beats, time.Since(p.began)/time.Millisecond)
	p.mu.Unlock()
	at := time.Now().Add(p.ahead)
	if !wake.Wait(ctx, p.takes, nil) {
		return time.Time{}, jobs.ErrUnavailable
	}
	if p.fail != nil {
		return at, p.fail(n)
	}
	return at, nil
}

// pacing is replica a, which has joined, and runs none of its loops. Its session ttl is ten seconds.
func pacing(t *testing.T) (*Member, *pacemaker) {
	t.Helper()
	st := &pacemaker{Store: newStore(), began: time.Now()}
	s := memberOn(t, st)
	s.opt.Local = true // by the clock of the test
	if err := s.Join(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.SetLoaded()
	return s, st
}

// A session is trusted from before a heartbeat was sent, however long the answer takes, for its ttl less a margin; a
// heartbeat that fails shortens none of that, and the heartbeats no longer count as steady.
func TestHowLongASessionIsTrusted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &pacemaker{Store: newStore(), began: time.Now(), takes: time.Second}
		s := memberOn(t, st)
		s.opt.Local = true
		s.health.storeDown(errRefused)
		const trust = 10*time.Second - 100*time.Millisecond // one percent
		left := func(when string, want time.Duration) {
			t.Helper()
			if got := s.session.Load().Trust.Until(); got != want {
				t.Errorf("%s: trusted for %v, want %v", when, got, want)
			}
		}
		if err := s.Join(t.Context()); err != nil {
			t.Fatal(err)
		}
		left("joined", trust-time.Second)
		if s.health.store.err != nil {
			t.Error("the store counts as away after a beat")
		}
		if _, err := s.clock.Check(time.Now()); err != nil {
			t.Errorf("it does not know the time: %v", err)
		}
		if got := s.session.Load().steady.Elapsed(); got < time.Second {
			t.Errorf("beats are steady for %v, with the first one asked for a second ago", got)
		}
		steady := s.session.Load().steady
		time.Sleep(2 * time.Second)
		s.health.storeDown(errRefused)
		if err := s.beat(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
		left("beaten", trust-time.Second)
		if s.session.Load().steady != steady || s.health.store.err != nil {
			t.Errorf("steady since %v, and not since %v; the store is away: %v", s.session.Load().steady, steady, s.health.store.err)
		}
		st.fail = func(int) error { return jobs.ErrUnavailable }
		for n := range 2 {
			if err := s.beat(t.Context(), time.Minute); err == nil {
				t.Error("a beat that fails is no error")
			}
			left("a beat failed", trust-time.Duration(n+2)*time.Second)
			if !s.session.Load().steady.IsZero() {
				t.Error("steady, though a beat failed")
			}
		}
		st.fail = nil
		if err := s.beat(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
		left("beaten again", trust-time.Second)
		if steady := s.session.Load().steady; steady.IsZero() || steady.Elapsed() > 100*time.Millisecond {
			t.Errorf("steady since %v ago, and this beat has just been answered", steady.Elapsed())
		}
		time.Sleep(trust - time.Second - 1)
		if !s.session.Load().Trusted() {
			t.Error("not trusted any more, a moment too soon")
		}
		time.Sleep(1)
		if s.session.Load().Trusted() || (*Session)(nil).Trusted() {
			t.Error("trusted when the time is over, or without a session")
		}
	})
}

// Heartbeats bring the database's time: a step is noticed with the first one, and believed with the third.
func TestBeatsBringTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, st := pacing(t)
		st.ahead = time.Hour
		for n := range consistentRenewals + 1 {
			_, err := s.clock.Check(time.Now().Add(time.Hour))
			if believed := n == consistentRenewals; believed != (err == nil) || (s.clock.skew() != 0) != (n > 0 && !believed) {
				t.Errorf("after %d beats: %v, skew %v", n, err, s.clock.skew())
			}
			time.Sleep(3 * time.Second)
			if err := s.beat(t.Context(), time.Second); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// A replica sends three heartbeats in a session ttl, and tries again after half a second while the store is away.
func TestHowOftenAReplicaBeats(t *testing.T) {
	for what, c := range map[string]struct {
		takes time.Duration
		fail  func(n int) error
		beats []time.Duration // after so many milliseconds; the first one is that of the join
	}{
		"as ever":         {0, nil, []time.Duration{0, 3333, 6666, 9999, 13333, 16666, 19999}},
		"each takes long": {time.Second, nil, []time.Duration{0, 4333, 7666, 10999, 14333, 17666}},
		"the store is away": {0, func(n int) error {
			if n == 2 || n == 3 || n == 4 {
				return fmt.Errorf("%w: cut off by the test", jobs.ErrUnavailable)
			}
			return nil
		}, []time.Duration{0, 3333, 6666, 7166, 7666, 8166, 11499, 14833, 18166}},
		"it takes long to be away": {time.Second, func(n int) error {
			if n == 2 {
				return fmt.Errorf("%w: cut off by the test", jobs.ErrUnavailable)
			}
			return nil
		}, []time.Duration{0, 4333, 7666, 9166, 12499, 15833, 19166}},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := &pacemaker{Store: newStore(), began: time.Now(), takes: c.takes, fail: c.fail}
				s := memberOn(t, st)
				if err := s.Join(t.Context()); err != nil {
					t.Fatal(err)
				}
				ctx, stop := context.WithDeadline(t.Context(), st.began.Add(20*time.Second))
				defer stop()
				s.Keep(ctx)
				if diff := cmp.Diff(c.beats, st.beats); diff != "" {
					t.Errorf("beats after (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// A replica whose session was expired calls Died, joins again with the configuration number that it had, and calls
// Changed.
func TestAnExpiredSessionJoinsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, st := pacing(t)
		s.SetConfig(Configuration{Number: 42})
		var died []string
		changed := 0
		s.on.Died, s.on.Changed = func(session string) { died = append(died, session) }, func() { changed++ }
		st.fail = func(n int) error {
			if n == 1 {
				return fmt.Errorf("beat: %w", ledger.ErrSessionDead)
			}
			return nil
		}
		log := &replicatest.Warnings{}
		s.log = slog.New(log)
		if err := s.beat(t.Context(), time.Second); err != nil {
			t.Fatal(err)
		}
		if said := log.Take(); len(said) != 1 || said[0] != "this replica's session expired; joining again replica=a" {
			t.Errorf("said is %q", said)
		}
		ses := s.session.Load()
		if ses.ID != "session 2" || !ses.Trusted() || st.member.Config != 42 || s.sessionsLost.Load() != 1 {
			t.Errorf("session %q, trusted: %t, with configuration %d, %d lost", ses.ID, ses.Trusted(), st.member.Config, s.sessionsLost.Load())
		}
		if !slices.Equal(died, []string{"session 1"}) {
			t.Errorf("expired are the sessions %q", died)
		}
		if changed != 1 {
			t.Errorf("said %d times that the replicas changed", changed)
		}
		if err := s.beat(t.Context(), time.Second); err != nil || s.session.Load().ID != "session 2" || s.sessionsLost.Load() != 1 {
			t.Errorf("the next beat: %v, session %q, %d lost", err, s.session.Load().ID, s.sessionsLost.Load())
		}
	})
}

// A session that expired before its first heartbeat is not renewed again: the next try joins anew.
func TestASessionThatDiesAsItBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &pacemaker{Store: newStore(), began: time.Now()}
		s := memberOn(t, st)
		st.fail = func(n int) error {
			if n < 2 {
				return fmt.Errorf("beat: %w", ledger.ErrSessionDead)
			}
			return nil
		}
		for try := 1; try <= 3; try++ {
			err := s.Join(t.Context())
			if errors.Is(err, ledger.ErrSessionDead) == (try == 3) || st.joined != try {
				t.Fatalf("try %d: joined %d times, %v", try, st.joined, err)
			}
		}
		if ses := s.session.Load(); ses.ID != "session 3" || !ses.Trusted() {
			t.Errorf("session %q, trusted: %t", ses.ID, ses.Trusted())
		}
	})
}
