package workers

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// await claims until there is something, or the time is over, and says since when the session, which was renewed at beaten, is known to be renewed. ctx ends when nothing is to be taken any more: at the end of the claim's time,
// or since its caller has gone.
//
//  1. if something may be left: wait for this claim's turn in its pool, and ask the store; return what there is
//  2. wait for an arrival, for the moment at which the rate lets a task start, or for a third of the session's ttl
//  3. after that third, also in the queue for the turn, renew the session; begin again
func (w *Workers) await(ctx context.Context, c wire.WorkerClaim, ses ledger.Peer, beaten time.Time) ([]ledger.Started, time.Time, error) {
	l, kinds := w.lineOf(c.Pool), strings.Join(c.Kinds, "\x00")
	end := time.Now().Add(c.Wait)
	asked, must := false, true
	// rest is how long the claim goes on to wait. Until the store was asked once, ctx alone ends it.
	rest := func() time.Duration {
		by, _ := ctx.Deadline()
		if asked {
			by = end
		}
		return time.Until(by)
	}
	var place chan struct{} // in the queue for the turn to ask
	leave := func() {
		if place != nil {
			l.leave(place)
		}
		place = nil
	}
	defer leave()
	for rest() > 0 && !w.over(ctx, c) {
		number, next, left := l.look(kinds)
		again := time.Duration(math.MaxInt64)
		switch {
		case !w.work.MayClaim():
			asked, again = true, askAgain
			leave()
		case must || left:
			if place == nil {
				place = l.join()
			}
			if !wait(ctx, place, c.Stop, min(rest(), ses.TTL/3-time.Since(beaten))) {
				again = 0
				break
			}
			if number, next, left = l.look(kinds); rest() <= 0 || w.over(ctx, c) || !must && !left { // or another one has found that nothing is left
				leave()
				break
			}
			asked, must = true, false
			got, decided, opens, err := w.claim(ctx, c, ses)
			if decided {
				l.limited.Store(got.Limited)
			}
			if decided && !got.More {
				l.nothingLeft(kinds, number)
			}
			leave()
			if err != nil || len(got.Tasks) > 0 {
				return got.Tasks, beaten, err
			}
			if opens > 0 {
				again, must = opens, true
			}
			if got.More && got.Behind == 0 { // what others have locked
				again, must = min(again, askAgain), true
			}
		default:
			leave()
		}
		wait(ctx, next, c.Stop, min(again, rest(), ses.TTL/3-time.Since(beaten)))
		if time.Since(beaten) < ses.TTL/3 || ctx.Err() != nil {
			continue
		}
		asks := time.Now()
		now, err := w.beat(ctx, c.WorkerCaller, ses.Session)
		if ctx.Err() != nil {
			continue
		}
		if err != nil {
			return nil, beaten, err
		}
		if now.Dead {
			return nil, beaten, errExpired(ses)
		}
		beaten = asks
	}
	return nil, beaten, nil
}

// fresh renews the session of a claim that answers with tasks, unless that was done a twentieth of its ttl before, or later. So the worker has at least
// two thirds of the ttl from the answer on: a claim that waits renews its session each third only, and its worker does not know when.
//
// Errors: *ledger.WorkerError: the session has expired; jobs.ErrUnavailable, also where the store took a third of the ttl for it.
func (w *Workers) fresh(ctx context.Context, c wire.WorkerClaim, ses ledger.Peer, renewed time.Time) error {
	if time.Since(renewed) <= ses.TTL/20 {
		return nil
	}
	asks := time.Now()
	now, err := w.beat(ctx, c.WorkerCaller, ses.Session)
	switch {
	case err != nil:
		return err
	case now.Dead:
		return errExpired(ses)
	case time.Since(asks) >= ses.TTL/3:
		return fmt.Errorf("the store took too long to renew the session of worker %s: %w", ses.Replica, jobs.ErrUnavailable)
	}
	return nil
}

// wait waits until one of the channels is closed, or d is over; true if it was the first one.
func wait(ctx context.Context, event <-chan struct{}, stop <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-event:
		return true
	default:
	}
	select {
	case <-event:
		return true
	case <-timer.C:
	case <-stop:
	case <-ctx.Done():
	}
	return false
}

// over reports whether a claim takes nothing any more, whatever time it has left.
func (w *Workers) over(ctx context.Context, c wire.WorkerClaim) bool {
	select {
	case <-c.Stop:
		return true
	case <-ctx.Done():
		return true
	default:
		return w.member.Draining()
	}
}
