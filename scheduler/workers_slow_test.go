package scheduler

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// slowClaims is a store whose answers to claims come late. It counts the claims of each session.
type slowClaims struct {
	*memstore.Store
	takes time.Duration

	mu sync.Mutex
	of map[string]int
}

func (s *slowClaims) Claim(ctx context.Context, c ledger.Claim) (ledger.Claimed, error) {
	s.mu.Lock()
	s.of[c.Session]++
	s.mu.Unlock()
	got, err := s.Store.Claim(ctx, c)
	time.Sleep(s.takes)
	return got, err
}

func (s *slowClaims) asked(session string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of[session]
}

// slow is a replica of the pool mail on such a store, with sessions of workers.
func slow(t *testing.T, takes time.Duration, sessions int) (*Scheduler, *slowClaims, []string) {
	t.Helper()
	st := &slowClaims{Store: &memstore.Store{Database: memstore.New()}, of: map[string]int{}}
	s := runs(t, st, jobs.Set{Pools: map[string]jobs.Pool{"mail": {Handler: jobs.Worker{}, MaxRunning: 3}}}, Options{ID: "a", SessionTTL: 6 * time.Second})
	time.Sleep(time.Second)
	var all []string
	for range sessions {
		session, _ := claims(t, s, wire.WorkerClaim{Pool: "mail", Max: 1})
		all = append(all, session)
	}
	st.takes, st.of = takes, map[string]int{}
	return s, st, all
}

func (s *slowClaims) enqueueMail(t *testing.T) string {
	t.Helper()
	added, err := s.Enqueue(t.Context(), jobs.NewTask{Pool: "mail"})
	if err != nil {
		t.Fatal(err)
	}
	return added[0].ID
}

func (s *slowClaims) wantPending(t *testing.T, id string) {
	t.Helper()
	if task, _, err := s.Task(t.Context(), id); err != nil || task.State != jobs.StatePending || task.Attempt != 0 {
		t.Errorf("%+v, %v", task, err)
	}
}

// What the store answers after a claim's wait is handed back: the caller may have gone.
func TestAnAnswerAfterTheWaitOfAClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, st, sessions := slow(t, 4*time.Second, 1)
		began := time.Now()
		id := ""
		time.AfterFunc(9*time.Second, func() { id = st.enqueueMail(t); s.Wake("mail") })
		_, tasks := claims(t, s, wire.WorkerClaim{Pool: "mail", Session: sessions[0], Max: 1, Wait: 10 * time.Second})
		if took := time.Since(began); len(tasks) > 0 || took < 10*time.Second || took > 14*time.Second {
			t.Errorf("after %v: %+v", took, tasks)
		}
		st.wantPending(t, id)
		// A claim with a short wait has 5 s: it asks once.
		if _, tasks := claims(t, s, wire.WorkerClaim{Pool: "mail", Session: sessions[0], Max: 1}); len(tasks) != 1 {
			t.Errorf("claimed %+v", tasks)
		}
	})
}

// A claim that waits for its turn asks the store for nothing once its time is over, its caller has gone, or its server stops; until then its
// session is renewed.
func TestAClaimThatWaitsForItsTurn(t *testing.T) {
	const takes = 4 * time.Second
	for what, c := range map[string]struct {
		wait, goes, stops time.Duration
		after             time.Duration // it returns
		takes             bool          // it takes a task
	}{
		"its time is over":      {wait: 6 * time.Second, after: 6 * time.Second},
		"a short wait":          {after: 5 * time.Second},
		"its caller has gone":   {wait: 20 * time.Second, goes: 5 * time.Second, after: 5 * time.Second},
		"its server stops":      {wait: 20 * time.Second, stops: 5 * time.Second, after: 5 * time.Second},
		"its turn comes":        {wait: 20 * time.Second, after: 3 * takes, takes: true},
		"its turn comes at end": {wait: 2*takes - time.Millisecond, after: 2*takes - time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			s, st, sessions := slow(t, takes, 3)
			var before sync.WaitGroup
			for _, session := range sessions[:2] {
				before.Go(func() {
					_, _ = s.ClaimFor(t.Context(), wire.WorkerClaim{Pool: "mail", Session: session, Max: 1, Wait: time.Millisecond})
				})
				synctest.Wait() // it has the turn, or waits for it
			}
			ids := []string{st.enqueueMail(t), st.enqueueMail(t)}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			stop := make(chan struct{})
			if c.goes > 0 {
				time.AfterFunc(c.goes, cancel)
			}
			if c.stops > 0 {
				time.AfterFunc(c.stops, func() { close(stop) })
			}
			began := time.Now()
			got, err := s.ClaimFor(ctx, wire.WorkerClaim{Pool: "mail", Session: sessions[2], Max: 1, Wait: c.wait, Stop: stop})
			took := time.Since(began)
			if (err != nil) != (c.goes > 0) || err != nil && !errors.Is(err, context.Canceled) || took < c.after || took > c.after+100*time.Millisecond || (len(got.Items) > 0) != c.takes {
				t.Errorf("%s: after %v %+v, %v", what, took, got.Items, err)
			}
			before.Wait()
			time.Sleep(time.Second)
			if n := st.asked(sessions[2]); (n > 0) != c.takes {
				t.Errorf("%s: it has asked the store %d times", what, n)
			}
			if !c.takes {
				st.wantPending(t, ids[1])
			}
		})
	}
}
