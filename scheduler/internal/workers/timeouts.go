package workers

import (
	"context"
	"fmt"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/wake"
)

// timeoutBatch is how many attempts are looked at in one go.
const timeoutBatch = 500

// Run ends attempts of workers that have timed out, until ctx is done. A worker may go on to send heartbeats while its work hangs.
//
//  1. wait a second or less
//  2. while no worker is live, wait again
//  3. read which attempts have timed out, by the clock that decisions are made by
//  4. end each as failed, or have it retried, under its token: of several replicas that do so one does
func (w *Workers) Run(ctx context.Context) {
	for wake.Wait(ctx, w.member.WatchEvery(), nil) {
		if w.member.Workers() > 0 {
			w.endTimedOut(ctx)
		}
	}
}

func (w *Workers) endTimedOut(ctx context.Context) {
	cctx, cancel := context.WithTimeout(ctx, callTime)
	late, err := w.store.TimedOut(cctx, w.member.Clock().Now(), timeoutBatch)
	cancel()
	if err != nil {
		w.member.StoreFailed(err)
		return
	}
	for _, h := range late {
		took := h.Until.Sub(h.StartedAt).Round(time.Millisecond)
		r := ledger.Result{
			TaskID: h.ID, Token: h.Token, Verdict: ledger.Ended, Reason: fmt.Sprintf("timeout after %v", took), Code: reason.Timeout,
			Error: "its worker did not end it in time",
		}
		w.fail(h, &r, false, -1)
		if _, err := w.end(ctx, ledger.Peer{Member: ledger.Member{Replica: h.Replica}, Session: h.Session}, true, h, r); err != nil && ctx.Err() != nil {
			return
		}
	}
}
