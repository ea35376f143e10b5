package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/internal/bound"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// pacemaker is a store whose beats take their time, and fail when they are told to.
type pacemaker struct {
	*picky
	takes time.Duration
	ahead time.Duration     // the database's clock
	fail  func(n int) error // the n-th beat, from 0

	mu     sync.Mutex
	began  time.Time
	beats  []time.Duration
	joined int
	member ledger.Member // that joined last
	moves  []ledger.Extension
	refuse map[string]bool // tasks whose rows are not this session's any more
	stuck  error           // of Extend
	then   func()          // before Extend answers
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
	if !pause(ctx, p.takes, nil) {
		return time.Time{}, jobs.ErrUnavailable
	}
	if p.fail != nil {
		return at, p.fail(n)
	}
	return at, nil
}

func (p *pacemaker) Load(context.Context, string, ledger.Definitions) (int64, error) { return 42, nil }

func (p *pacemaker) Extend(_ context.Context, _ string, moves []ledger.Extension) ([]bool, error) {
	p.moves = append(p.moves, moves...)
	if p.then != nil {
		p.then()
	}
	ours := make([]bool, len(moves))
	for i, m := range moves {
		ours[i] = !p.refuse[m.TaskID]
	}
	return ours, p.stuck
}

// pacing is replica a, which has joined, and runs none of its loops. Its session ttl is ten seconds.
func pacing(t *testing.T) (*Scheduler, *pacemaker) {
	t.Helper()
	st := &pacemaker{picky: newPicky(nil), began: time.Now()}
	s := replicaOn(t, st, blocked{})
	s.local = true // by the clock of the test
	if err := s.join(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.health.start()
	return s, st
}

// A session is trusted from before a beat was asked for, however long the answer takes, for its ttl less a margin; a
// beat that fails takes nothing of that away, and says that the beats are not steady any more.
func TestHowLongASessionIsTrusted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &pacemaker{picky: newPicky(nil), began: time.Now(), takes: time.Second}
		s := replicaOn(t, st, blocked{})
		s.local = true
		s.health.storeDown(errRefused)
		const trust = 10*time.Second - 100*time.Millisecond // one percent
		left := func(when string, want time.Duration) {
			t.Helper()
			if got := s.session.Load().trust.Until(); got != want {
				t.Errorf("%s: trusted for %v, want %v", when, got, want)
			}
		}
		if err := s.join(t.Context()); err != nil {
			t.Fatal(err)
		}
		left("joined", trust-time.Second)
		if s.health.store.err != nil {
			t.Error("the store counts as away after a beat")
		}
		if _, err := s.clock.check(time.Now()); err != nil {
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
		if !s.session.Load().trusted() {
			t.Error("not trusted any more, a moment too soon")
		}
		time.Sleep(1)
		if s.session.Load().trusted() || (*session)(nil).trusted() {
			t.Error("trusted when the time is over, or without a session")
		}
	})
}

// Beats bring the database's time: a step is noticed with the first one, and believed with the third.
func TestBeatsBringTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, st := pacing(t)
		st.ahead = time.Hour
		for n := range consistentRenewals + 1 {
			_, err := s.clock.check(time.Now().Add(time.Hour))
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

// A replica beats three times in a session ttl, and tries again after half a second while the store is away.
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
				st := &pacemaker{picky: newPicky(nil), began: time.Now(), takes: c.takes, fail: c.fail}
				s := replicaOn(t, st, blocked{})
				if err := s.join(t.Context()); err != nil {
					t.Fatal(err)
				}
				ctx, stop := context.WithDeadline(t.Context(), st.began.Add(20*time.Second))
				defer stop()
				s.keep(ctx)
				if diff := cmp.Diff(c.beats, st.beats); diff != "" {
					t.Errorf("beats after (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// A replica whose session was declared dead has what that session ran stopped as others may start it, joins again with
// the configuration number that it had, and asks who governs.
func TestASessionThatDied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, st := pacing(t)
		if err := s.load(t.Context()); err != nil {
			t.Fatal(err)
		}
		mine, earlier := &attempt{task: jobs.Task{ID: "1"}, session: "session 1"}, &attempt{task: jobs.Task{ID: "2"}, session: "session 0"}
		s.register.run(mine)
		s.register.run(earlier)
		st.fail = func(n int) error {
			if n == 1 {
				return fmt.Errorf("beat: %w", ledger.ErrSessionDead)
			}
			return nil
		}
		log := &lines{}
		s.log = slog.New(log)
		if err := s.beat(t.Context(), time.Second); err != nil {
			t.Fatal(err)
		}
		if said := log.take(); len(said) != 1 || said[0] != "the others declared this replica dead; joining again replica=a" {
			t.Errorf("said is %q", said)
		}
		ses := s.session.Load()
		if ses.id != "session 2" || !ses.trusted() || st.member.Config != 42 || s.sessionsLost.Load() != 1 {
			t.Errorf("session %q, trusted: %t, with configuration %d, %d lost", ses.id, ses.trusted(), st.member.Config, s.sessionsLost.Load())
		}
		if !mine.orphaned || earlier.orphaned {
			t.Errorf("its session is dead: %t; that of another attempt: %t", mine.orphaned, earlier.orphaned)
		}
		if len(s.nudgeGovern) != 1 {
			t.Error("it does not ask who governs")
		}
		if err := s.beat(t.Context(), time.Second); err != nil || s.session.Load().id != "session 2" || s.sessionsLost.Load() != 1 {
			t.Errorf("the next beat: %v, session %q, %d lost", err, s.session.Load().id, s.sessionsLost.Load())
		}
	})
}

// A session that is dead before its first beat is not beaten for again: the next try joins anew.
func TestASessionThatDiesAsItBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &pacemaker{picky: newPicky(nil), began: time.Now()}
		s := replicaOn(t, st, blocked{})
		st.fail = func(n int) error {
			if n < 2 {
				return fmt.Errorf("beat: %w", ledger.ErrSessionDead)
			}
			return nil
		}
		for try := 1; try <= 3; try++ {
			err := s.join(t.Context())
			if errors.Is(err, ledger.ErrSessionDead) == (try == 3) || st.joined != try {
				t.Fatalf("try %d: joined %d times, %v", try, st.joined, err)
			}
		}
		if ses := s.session.Load(); ses.id != "session 3" || !ses.trusted() {
			t.Errorf("session %q, trusted: %t", ses.id, ses.trusted())
		}
	})
}

// A replica says of itself what the others judge it by.
func TestWhatAReplicaJoinsWith(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &pacemaker{picky: newPicky(nil), began: time.Now()}
		o := Options{ID: "a", SessionTTL: 7 * time.Second, Workers: 5, Labels: map[string]string{"zone": "b"}, LockService: "redis", Version: "1", Address: "here:1"}
		s, err := newOn(st, noLocks{}, jobs.Set{}, o)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.join(t.Context()); err != nil {
			t.Fatal(err)
		}
		m := st.member
		if m.Host == "" || m.PID == 0 {
			t.Errorf("it is process %d of host %q", m.PID, m.Host)
		}
		m.Host, m.PID, m.PIDStart, m.BootID = "", 0, 0, ""
		want := ledger.Member{Replica: "a", TTL: o.SessionTTL, Workers: 5, Labels: o.Labels, LockService: "redis", Version: "1", Address: "here:1"}
		if diff := cmp.Diff(want, m); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// With each beat the handlers learn until when they may run, and attempts that have passed a due time of their job may
// run until the next one, if the row is still theirs. All others keep the time that they have.
func TestWhichAttemptsMayRunLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &pacemaker{picky: newPicky(nil), began: time.Now(), refuse: map[string]bool{"taken": true}}
		hourly := jobs.Job{Schedule: "@hourly", Handler: blocked{}, Timeout: 24 * time.Hour}
		retried := hourly
		retried.OnLost = jobs.LostRetries
		s, err := newOn(st, nil, jobs.Set{Jobs: map[string]jobs.Job{"j": hourly, "r": retried}}, Options{ID: "a"})
		if err != nil {
			t.Fatal(err)
		}
		s.local = true
		if err := s.join(t.Context()); err != nil {
			t.Fatal(err)
		}
		now := time.Now()
		passed, ahead := now.Add(-time.Minute), now.Add(time.Minute)
		next := now.Truncate(time.Hour).Add(time.Hour)
		all := map[string]*attempt{}
		for id, a := range map[string]*attempt{
			"passed":        {task: jobs.Task{Job: "j"}, mayRun: passed},
			"ahead":         {task: jobs.Task{Job: "j"}, mayRun: ahead},
			"taken":         {task: jobs.Task{Job: "j"}, mayRun: passed},
			"retried":       {task: jobs.Task{Job: "r"}, mayRun: passed},
			"without a job": {mayRun: passed},
			"unknown":       {task: jobs.Task{Job: "x"}, mayRun: passed},
			"other session": {task: jobs.Task{Job: "j"}, mayRun: passed, session: "session 0"},
		} {
			a.task.ID, a.task.Token, a.bound = id, 7, bound.New(boottime.Awake(), 0)
			if a.session == "" {
				a.session = s.session.Load().id
			}
			all[id] = a
			s.register.run(a)
		}
		time.Sleep(time.Second)
		if err := s.beat(t.Context(), time.Second); err != nil {
			t.Fatal(err)
		}
		trusted := s.session.Load().trust.Until()
		for id, a := range all {
			until, left := passed, trusted
			switch id {
			case "ahead":
				until, left = ahead, ahead.Sub(time.Now())
			case "passed":
				until, left = next, next.Sub(time.Now())
			case "other session":
				left = passed.Sub(time.Now())
			}
			if got := a.bound.Left(); !a.until().Equal(until) || (got-left).Abs() > 50*time.Millisecond {
				t.Errorf("%s: may run until %v, want %v; its handler has %v, want %v", id, a.until(), until, got, left)
			}
		}
		asked := map[string]bool{}
		for _, m := range st.moves {
			if asked[m.TaskID] = true; m.Token != 7 || !m.Until.Equal(next) {
				t.Errorf("asked for %+v", m)
			}
		}
		if diff := cmp.Diff(map[string]bool{"passed": true, "taken": true}, asked); diff != "" {
			t.Errorf("asked for (-want +got):\n%s", diff)
		}

		all["passed"].setUntil(passed)
		st.stuck = jobs.ErrUnavailable
		if err := s.beat(t.Context(), time.Second); err != nil || !all["passed"].until().Equal(passed) {
			t.Errorf("%v; without an answer it may run until %v", err, all["passed"].until())
		}
		st.stuck, st.then = nil, func() {
			for _, id := range []string{"passed", "taken"} {
				s.register.forget(all[id])
			}
		}
		if err := s.beat(t.Context(), time.Second); err != nil || !all["passed"].until().Equal(passed) {
			t.Errorf("%v; what has ended meanwhile may run until %v", err, all["passed"].until())
		}
		st.moves = nil
		if err := s.beat(t.Context(), time.Second); err != nil || len(st.moves) > 0 {
			t.Errorf("%v; asked for %v", err, st.moves)
		}
	})
}
