package metrics

import (
	"context"
	"errors"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/nilcheck"
)

const (
	// refreshTimeout bounds one refresh.
	refreshTimeout = 10 * time.Second
	// share is the inverse of the maximum share of one connection's time.
	share = 50
	// longest bounds the resulting pause: jobs that run each minute must not look late.
	longest = leeway * 2 / 5
	// early is the interval until the replica is ready.
	early = time.Second
	// forgotten is how long refreshes go on without a scrape.
	forgotten = 5 * time.Minute
)

// ErrRan: Run was called before. A Metrics is for one replica.
var ErrRan = errors.New("metrics: Run was called before; create a Metrics for each replica")

// Run adds the metrics of r, and refreshes those of the store until ctx is done; then it returns nil.
//
//  1. wait for the refresh interval, longer after a slow read, and for a second until the replica is ready
//  2. if the last scrape was long ago, wait for the next one
//  3. read the store once; after an error the metrics of the last read stay
//
// A second call returns [ErrRan] at once and changes nothing; a nil replica is an error.
func (m *Metrics) Run(ctx context.Context, r Replica) error {
	if nilcheck.IsNil(r) {
		return errors.New("metrics: Run: the replica is nil")
	}
	w := newWatched(r, r.Vitals().Config)
	if !m.watched.CompareAndSwap(nil, w) {
		return ErrRan
	}
	for _, name := range w.pools {
		m.begin(name)
	}
	if m.store == nil {
		<-ctx.Done()
		return nil
	}
	m.scraped.Store(time.Now().UnixNano()) // begin with an answer to the first one
	known := newPlans(w.set)
	for wait, settled := early, false; m.pause(ctx, wait); {
		v := r.Vitals()
		if now := m.current(m.watched.Load(), v); now != w {
			w, known = now, newPlans(now.set)
		}
		settled = settled || v.Ready
		wait = m.refresh(ctx, known)
		if !settled {
			wait = early
		}
	}
	return nil
}

// refresh reads the store once, and returns the pause before the next read.
func (m *Metrics) refresh(ctx context.Context, known plans) time.Duration {
	began := time.Now()
	rctx, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	p, err := m.read(rctx, known)
	took := time.Since(began)
	wait := max(m.opt.Refresh, min(share*took, longest))
	var last page
	if old := m.page.Load(); old != nil {
		last = *old
	}
	if err != nil {
		last.failures++
		m.page.Store(&last)
		return wait
	}
	p.failures = last.failures
	p.at, p.took, p.expires = began, took, time.Now().Add(4*wait)
	m.page.Store(p)
	return wait
}

// pause waits for d, and then for a scrape if the last one is long ago; false once ctx is done.
func (m *Metrics) pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
	}
	for time.Since(time.Unix(0, m.scraped.Load())) > forgotten {
		select {
		case <-ctx.Done():
			return false
		case <-m.wakeup:
		}
	}
	return ctx.Err() == nil
}

// noteScrape notes a scrape.
func (m *Metrics) noteScrape() {
	m.scraped.Store(time.Now().UnixNano())
	select {
	case m.wakeup <- struct{}{}:
	default:
	}
}
