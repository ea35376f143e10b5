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

// beating is a store that notes when a worker's session was renewed, and where that may take long or the session may expire while a claim takes a task.
type beating struct {
	*memstore.Store
	expires bool
	slow    time.Duration // once a task was taken

	mu    sync.Mutex
	last  time.Time
	beats int
	taken bool
}

func (b *beating) BeatWorker(ctx context.Context, session, owner string) (ledger.Peer, time.Time, error) {
	b.mu.Lock()
	b.last = time.Now()
	b.beats++
	taken := b.taken
	b.mu.Unlock()
	p, now, err := b.Store.BeatWorker(ctx, session, owner)
	if taken {
		time.Sleep(b.slow)
	}
	return p, now, err
}

func (b *beating) Claim(ctx context.Context, c ledger.Claim) (ledger.Claimed, error) {
	got, err := b.Store.Claim(ctx, c)
	if len(got.Tasks) > 0 {
		b.mu.Lock()
		b.taken = true
		n := b.beats
		b.mu.Unlock()
		if b.expires {
			for beat := range int64(n + 1) {
				if _, err := b.Expire(ctx, c.Session, beat); err != nil {
					return got, err
				}
			}
		}
	}
	return got, err
}

// A claim that waited answers with tasks under a session that was just renewed: its worker counts from the answer. If the session cannot be renewed, the
// tasks are handed back.
func TestTheSessionOfAClaimThatWaited(t *testing.T) {
	const ttl = 9 * time.Second
	for what, c := range map[string]struct {
		expires bool
		slow    time.Duration
		after   time.Duration // the task comes
		beats   int
		code    string
		err     error
	}{
		"at once":                         {after: ttl / 30, beats: 0},
		"late in the third":               {after: 2900 * time.Millisecond, beats: 1},
		"after others":                    {after: 3*ttl + 2900*time.Millisecond, beats: 10},
		"the session expires":             {after: 2 * time.Second, expires: true, beats: 1, code: ledger.SessionExpired},
		"the store is slow":               {after: 2 * time.Second, slow: 2 * time.Second, beats: 1},
		"the store is slower than a beat": {after: 2 * time.Second, slow: 3 * time.Second, beats: 1, err: jobs.ErrUnavailable},
	} {
		synctest.Test(t, func(t *testing.T) {
			st := &beating{Store: &memstore.Store{Database: memstore.New()}, expires: c.expires, slow: c.slow}
			s := runs(t, st, jobs.Set{Pools: map[string]jobs.Pool{"mail": {Handler: jobs.Worker{}}}}, Options{ID: "a", SessionTTL: ttl})
			time.Sleep(time.Second)
			opens := time.Now()
			st.last = opens
			id := ""
			time.AfterFunc(c.after, func() {
				added, err := st.Enqueue(context.Background(), jobs.NewTask{Pool: "mail"})
				if err != nil {
					t.Error(err)
					return
				}
				id = added[0].ID
				s.Wake("mail")
			})
			got, err := s.ClaimFor(t.Context(), wire.WorkerClaim{Pool: "mail", Name: "w", Max: 1, Wait: time.Minute})
			st.mu.Lock()
			age, beats := time.Since(st.last), st.beats
			st.mu.Unlock()
			if beats != c.beats {
				t.Errorf("%s: renewed %d times, want %d", what, beats, c.beats)
			}
			refused := (*ledger.WorkerError)(nil)
			switch {
			case c.code != "":
				if !errors.As(err, &refused) || refused.Code != c.code {
					t.Errorf("%s: %+v, %v", what, got, err)
				}
			case c.err != nil:
				if !errors.Is(err, c.err) {
					t.Errorf("%s: %+v, %v", what, got, err)
				}
			case err != nil || len(got.Items) != 1 || age > ttl/20+c.slow:
				t.Errorf("%s: %+v, %v; the session was renewed %v before", what, got, err, age)
			}
			if task, attempts, terr := st.Task(t.Context(), id); err != nil && (terr != nil || task.State != jobs.StatePending || len(attempts) > 0) {
				t.Errorf("%s: %+v, %+v, %v", what, task, attempts, terr)
			}
		})
	}
}
