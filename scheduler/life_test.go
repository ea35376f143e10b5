package scheduler

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// troubled is a store with trouble of one kind.
type troubled struct {
	*memstore.Store
	join, load error
	hangs      bool // joining and loading take until the caller gives up

	claim    func(c ledger.Claim) // called after a claim whose answer is then lost
	claiming atomic.Int32

	slow    bool // it takes seconds to list the live replicas
	reading atomic.Int32

	owns, events atomic.Int32 // how often it was asked for own rows, for events
}

func (s *troubled) Join(ctx context.Context, m ledger.Member) (string, error) {
	if s.hangs && s.join != nil {
		<-ctx.Done()
	}
	if s.join != nil {
		return "", s.join
	}
	return s.Store.Join(ctx, m)
}

func (s *troubled) Load(ctx context.Context, session string, d ledger.Definitions) (int64, error) {
	if s.hangs && s.load != nil {
		<-ctx.Done()
	}
	if s.load != nil {
		return 0, s.load
	}
	return s.Store.Load(ctx, session, d)
}

func (s *troubled) Claim(ctx context.Context, c ledger.Claim) (ledger.Claimed, error) {
	s.claiming.Add(1)
	defer s.claiming.Add(-1)
	got, err := s.Store.Claim(ctx, c)
	if s.claim != nil && len(got.Tasks) > 0 {
		s.claim(c)
		return ledger.Claimed{}, jobs.ErrUnavailable
	}
	return got, err
}

func (s *troubled) Running(ctx context.Context, session string) (ledger.Running, error) {
	s.owns.Add(1)
	return s.Store.Running(ctx, session)
}

func (s *troubled) Peers(ctx context.Context) ([]ledger.Peer, error) {
	s.reading.Add(1)
	defer s.reading.Add(-1)
	if s.slow {
		time.Sleep(4 * time.Second)
	}
	return s.Store.Peers(ctx)
}

func (s *troubled) Notify(ctx context.Context, n ledger.Notify) (ledger.Notified, error) {
	s.events.Add(1)
	return s.Store.Notify(ctx, n)
}

func quietStore() *troubled { return &troubled{Store: &memstore.Store{Database: memstore.New()}} }

// sessionsOf counts the live sessions.
func sessionsOf(st *memstore.Store) (live int) {
	st.Database.Look(func(rows memstore.Rows) {
		for _, row := range rows.Sessions {
			if !row.Dead {
				live++
			}
		}
	})
	return live
}

// The errors of Run when it cannot begin. A stop before the start is no error; nothing is left in the
// store, and nothing was started.
func TestARunThatDoesNotBegin(t *testing.T) {
	trouble := errors.New("no such table")
	for what, c := range map[string]struct {
		st   *troubled
		stop bool // meanwhile
		says string
	}{
		"it cannot join":                  {&troubled{join: trouble}, false, "no such table"},
		"told to stop while it joins":     {&troubled{join: trouble, hangs: true}, true, ""},
		"its definitions are not taken":   {&troubled{load: trouble}, false, "load definitions: no such table"},
		"told to stop while it does that": {&troubled{load: trouble, hangs: true}, true, ""},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ran := new(atomic.Int64)
				c.st.Store = &memstore.Store{Database: memstore.New()}
				s, err := newOn(c.st, nil, jobs.Set{Jobs: map[string]jobs.Job{"j": {Schedule: "* * * * * *", Handler: quick{ran}}}}, Options{ID: "a"})
				if err != nil {
					t.Fatal(err)
				}
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				if c.stop {
					time.AfterFunc(time.Second, stop)
				} else {
					time.AfterFunc(time.Minute, stop)
				}
				began := time.Now()
				got := ""
				if err := s.Run(ctx); err != nil {
					got = err.Error()
				}
				if got == "" != (c.says == "") || !strings.HasSuffix(got, c.says) || time.Since(began) > 5*time.Second {
					t.Errorf("%q after %v, want %q", got, time.Since(began), c.says)
				}
				if ran.Load() > 0 || sessionsOf(c.st.Store) > 0 || s.Loaded() {
					t.Errorf("%d runs, %d sessions, loaded: %v", ran.Load(), sessionsOf(c.st.Store), s.Loaded())
				}
				if err := s.Run(ctx); !errors.Is(err, ErrRan) {
					t.Errorf("a second call: %v", err)
				}
			})
		})
	}
}

// A replica that begins right before a due time starts it on time: it knows at once which stripes are its own.
func TestTheFirstDueTimeIsOnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &noting{at: map[string][]time.Time{}}
		time.Sleep(900 * time.Millisecond)
		runs(t, quietStore(), jobs.Set{Jobs: map[string]jobs.Job{"j": {Schedule: "* * * * * *", Handler: h, Payload: json.RawMessage(`"j"`)}}}, Options{ID: "a"})
		time.Sleep(5 * time.Second)
		began := h.begun("j")
		if len(began) != 5 {
			t.Fatalf("began at %v", began)
		}
		for _, at := range began {
			if late := at.Sub(at.Truncate(time.Second)); late > 50*time.Millisecond {
				t.Errorf("%v late at %v", late, at)
			}
		}
	})
}

// A replica that waits for its lock service starts nothing before that has answered once.
func TestAReplicaThatWaitsForItsLocksBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := quietStore()
		ran := new(atomic.Int64)
		set := jobs.Set{Pools: map[string]jobs.Pool{"p": {Handler: quick{ran}}}, Jobs: map[string]jobs.Job{"j": {Handler: quick{ran}}}}
		if err := st.AddPools(t.Context(), set.Pools); err != nil {
			t.Fatal(err)
		}
		if _, err := st.Enqueue(t.Context(), jobs.NewTask{Pool: "p", Force: true}); err != nil {
			t.Fatal(err)
		}
		s, err := newOn(st, replicatest.Mute{}, set, Options{ID: "a", WhenDown: DownWait})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		time.AfterFunc(time.Millisecond, func() {
			if _, _, err := s.RunJob(ctx, "j", "ann", ""); !errors.Is(err, jobs.ErrUnavailable) || !s.Loaded() {
				t.Errorf("a run by hand: %v", err)
			}
		})
		if err := s.Run(ctx); err != nil || ran.Load() > 0 {
			t.Errorf("%v; it ran %d times", err, ran.Load())
		}
	})
}

// While a required lock service has not answered yet nothing starts: due times are not decided, with or without the lock,
// and manual runs are refused with the reason.
func TestNothingStartsBeforeTheLocksHaveAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ran := new(atomic.Int64)
		hangs := func(ctx context.Context) ([]locks.Attempt, error) { <-ctx.Done(); return nil, ctx.Err() }
		set := jobs.Set{Jobs: map[string]jobs.Job{"j": {Handler: quick{ran}, Schedule: "* * * * * *", Concurrency: jobs.Allow}}}
		s, err := newOn(quietStore(), &replicatest.Scripted{Answer: hangs}, set, Options{ID: "a", WhenDown: DownWait})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(t.Context(), 4*time.Second)
		defer stop()
		time.AfterFunc(time.Second, func() {
			if _, _, err := s.RunJob(ctx, "j", "ann", ""); !errors.Is(err, jobs.ErrUnavailable) || !strings.Contains(err.Error(), "has not started yet") {
				t.Errorf("a run by hand: %v", err)
			}
		})
		if err := s.Run(ctx); err != nil || ran.Load() > 0 {
			t.Errorf("%v; it ran %d times", err, ran.Load())
		}
	})
}

// A manual run is refused until the definitions are loaded and a lock service, if there is one, was asked: as one that may pass, and
// not as a conflict with another configuration.
func TestARunByHandBeforeTheStart(t *testing.T) {
	set := jobs.Set{Jobs: map[string]jobs.Job{"j": {Handler: quick{new(atomic.Int64)}}}}
	for _, c := range []struct {
		locks     Locks
		when      WhenDown
		met, told bool
	}{
		{replicatest.Mute{}, DownWait, false, true},
		{replicatest.Mute{}, DownWait, true, false},
		{replicatest.Mute{}, DownStore, false, true},
		{nil, DownWait, false, true},
		{nil, DownStore, true, false},
	} {
		s, err := newOn(quietStore(), c.locks, set, Options{ID: "a", WhenDown: c.when})
		if err != nil {
			t.Fatal(err)
		}
		trusting(s)
		if c.met {
			s.members.SetLoaded()
		}
		_, _, err = s.RunJob(t.Context(), "j", "ann", "")
		if told := err != nil && strings.Contains(err.Error(), "has not started yet"); told != c.told || told != errors.Is(err, jobs.ErrUnavailable) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// An enqueued task begins at once where the replica is woken, and a poll later otherwise. There may be no such pool.
func TestWakeStartsWhatIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := quietStore()
		h := newGiven()
		s := runs(t, st, jobs.Set{Pools: map[string]jobs.Pool{"p": {Handler: h}}}, Options{ID: "a"})
		time.Sleep(5*time.Second + 20*time.Millisecond)
		enqueued := func() string {
			t.Helper()
			all, err := st.Enqueue(t.Context(), jobs.NewTask{Pool: "p"})
			if err != nil {
				t.Fatal(err)
			}
			return all[0].Task.ID
		}
		id := enqueued()
		if got := h.now(); got.ID != "" {
			t.Fatalf("%s began before anybody looked", got.ID)
		}
		s.Wake("nobody's", "p")
		if got := h.now(); got.ID != id {
			t.Errorf("woken: %q began, want %q", got.ID, id)
		}
		h.finish(nil)
		id = enqueued()
		time.Sleep(500 * time.Millisecond)
		if got := h.now(); got.ID != id {
			t.Errorf("a poll later: %q began, want %q", got.ID, id)
		}
		h.finish(nil)
	})
}

// A replica that is woken without pools looks at its own rows, at work and at events at once.
func TestWakeWithoutPoolsLooksAtEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := quietStore()
		h := newGiven()
		s := runs(t, st, jobs.Set{Pools: map[string]jobs.Pool{"p": {Handler: h}}}, Options{ID: "a"})
		time.Sleep(5*time.Second + 20*time.Millisecond)
		paused := true
		if err := st.PausePool(t.Context(), "p", "ann", &paused); err != nil {
			t.Fatal(err)
		}
		all, err := st.Enqueue(t.Context(), jobs.NewTask{Pool: "p"})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if err := st.PausePool(t.Context(), "p", "ann", nil); err != nil {
			t.Fatal(err)
		}
		events := st.events.Load()
		s.Wake()
		if got := h.now(); got.ID != all[0].Task.ID {
			t.Errorf("after the pause %q began", got.ID)
		}
		if st.events.Load() == events {
			t.Error("it does not look at events")
		}
		rows := st.owns.Load()
		s.Wake()
		if synctest.Wait(); st.owns.Load() == rows {
			t.Error("it does not look at its rows, of which one may be cancelled")
		}
		h.finish(nil)
	})
}

// Run returns after everything that it began has ended. A task whose claim had no answer when the replica is told to stop is
// pending for others afterwards, and the session is ended.
func TestNothingIsLeftWhenRunEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := quietStore()
		st.slow = true
		s, err := newOn(st, nil, jobs.Set{Pools: map[string]jobs.Pool{"p": {Handler: newGiven()}}}, Options{ID: "a"})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var draining bool // set before Run ends
		st.claim = func(ledger.Claim) {
			stop()
			time.Sleep(3 * time.Second)
			draining = s.members.Draining()
		}
		ids := make(chan string, 1)
		time.AfterFunc(5*time.Second, func() {
			all, err := st.Enqueue(context.Background(), jobs.NewTask{Pool: "p"})
			if err != nil {
				t.Error(err)
				return
			}
			ids <- all[0].Task.ID
		})
		if err := s.Run(ctx); err != nil || st.claiming.Load() > 0 || st.reading.Load() > 0 {
			t.Errorf("%v; %d claims and %d looks at who lives are under way", err, st.claiming.Load(), st.reading.Load())
		}
		if !draining || !s.Vitals().Draining || s.Vitals().Ready {
			t.Error("a replica that was told to stop says that it starts new work")
		}
		if got, _, err := st.Task(t.Context(), <-ids); err != nil || got.State != jobs.StatePending || got.Replica != "" {
			t.Errorf("%v; what was claimed is %+v", err, got)
		}
		if n := sessionsOf(st.Store); n > 0 {
			t.Errorf("%d sessions are left", n)
		}
	})
}

// The session of a replica with work that does not end is left to expire: nothing may start in its place sooner.
func TestASessionWithWorkIsLeftToExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := quietStore()
		end := make(chan struct{})
		h := replicatest.Function(func(context.Context, jobs.Task, io.Writer) error { <-end; return nil })
		s, err := newOn(st, nil, jobs.Set{Jobs: map[string]jobs.Job{"j": {Handler: h}}}, Options{ID: "a", DrainTimeout: time.Second, StopGrace: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		time.Sleep(time.Second)
		_, task, err := s.RunJob(t.Context(), "j", "ann", "")
		if err != nil {
			t.Fatal(err)
		}
		stop()
		if err := <-ended; err == nil || !strings.Contains(err.Error(), "still running after the last wait: task "+task.ID+" of job j of pool ") {
			t.Errorf("Run says %v", err)
		}
		if n := sessionsOf(st.Store); n != 1 {
			t.Errorf("%d sessions live", n)
		}
		close(end)
	})
}

// A replica needs a store.
func TestNewNeedsAStore(t *testing.T) {
	for _, st := range []ledger.Store{nil, (*memstore.Store)(nil)} {
		if s, err := newOn(st, nil, jobs.Set{}, Options{}); err == nil || s != nil {
			t.Errorf("%#v: %v", st, err)
		}
	}
}
