package workers

import (
	"context"
	"fmt"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/wake"
)

// Run ends attempts of workers that have timed out, until ctx is done. A worker may go on to send heartbeats while its work hangs.
//
//  1. wait a second or less
//  2. while no worker is live, wait again
//  3. read which attempts have timed out, by the clock that decisions are made by
//  4. leave those that a newer configuration has and this replica does not to others; end the rest as failed, or have them retried, in one call for all, each under its token: of several replicas that do so one does, and counts it
//  5. if there may be more, read on at once
func (w *Workers) Run(ctx context.Context) {
	for wake.Wait(ctx, w.member.WatchEvery(), nil) {
		if w.member.Workers() > 0 {
			for w.endTimedOut(ctx) && ctx.Err() == nil {
			}
		}
	}
}

// endTimedOut ends a batch of attempts that have timed out; more: others may have, too.
func (w *Workers) endTimedOut(ctx context.Context) (more bool) {
	cctx, cancel := context.WithTimeout(ctx, callTime)
	late, err := w.store.TimedOut(cctx, w.member.Clock().Now(), batch)
	cancel()
	if err != nil {
		w.member.StoreFailed(err)
		return false
	}
	if len(late) == 0 {
		return false
	}
	var ends []ending
	for _, h := range late {
		x, err := w.execution(h)
		if err != nil {
			continue // a replica with the newer configuration does it
		}
		took := h.Until.Sub(h.StartedAt).Round(time.Millisecond)
		r := ledger.Result{
			TaskID: h.ID, Token: h.Token, Verdict: ledger.Ended, Reason: fmt.Sprintf("timeout after %v", took), Code: reason.Timeout,
			Error: "its worker did not end it in time",
		}
		w.fail(h, &r, x.Retries, false, -1)
		ends = append(ends, ending{ledger.Peer{Member: ledger.Member{Replica: h.Replica}, Session: h.Session}, h, r})
	}
	if len(ends) == 0 {
		return false
	}
	_, err = w.endAll(ctx, ends)
	return err == nil && len(late) == batch
}
