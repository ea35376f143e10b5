package work

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/wake"
)

const (
	// refusedForAll is how many refusals in a row mean that the store refuses all results, and not one of them: it is more
	// than it takes to find one result in a batch.
	refusedForAll = 12
	// recordAgain is the time until a refused result is tried again.
	recordAgain = 10 * time.Second
)

// refusal reports whether the store refused: it answered, and the answer is not that it cannot do so now.
func refusal(err error) bool {
	cannot := []error{
		jobs.ErrUnavailable, ledger.ErrSessionDead, ledger.ErrOutdated, ledger.ErrClock,
		context.Canceled, context.DeadlineExceeded,
	}
	return !slices.ContainsFunc(cannot, func(e error) bool { return errors.Is(err, e) })
}

// record writes the batch; false once ctx is done. Of a batch that is refused, or takes too long, each
// half is tried alone, and so on: one result that the store refuses delays no other.
func (r *recorder) record(ctx context.Context, batch []outcome) bool {
	return ledger.Halve(batch, func(batch []outcome) (refused, goOn bool) {
		err := r.write(ctx, batch)
		switch {
		case err == nil:
			r.refused = 0
			return false, true
		case ctx.Err() != nil:
			return false, false
		case errors.Is(err, errTooSlow): // of several
		case !r.countRefusal(ctx, err):
			return false, false
		case len(batch) == 1:
			return false, r.recordBare(ctx, batch[0], err)
		}
		return true, true
	})
}

// countRefusal counts a refusal. While the store refuses every call, as without the rights to its tables, the calls
// are spaced by a pause. False once ctx is done.
func (r *recorder) countRefusal(ctx context.Context, why error) bool {
	if r.refused++; r.refused < refusedForAll {
		return true
	}
	r.executor.member.StoreFailed(why)
	return wake.Wait(ctx, recordRetry, nil)
}

// recordBare writes a refused result without its texts, which may be the reason. The state that it gives the
// task is never changed or dropped: that would start the task a second time. If the store refuses this, too, the
// result stays here and is tried again; false once ctx is done.
func (r *recorder) recordBare(ctx context.Context, o outcome, why error) bool {
	bare := o
	bare.result.Error, bare.result.Output, bare.result.Value = "", nil, nil
	bare.result.Reason = "recorded without error, output and result, which the store refused: " + why.Error()
	bare.result.Code = cmp.Or(o.result.Code, reason.RecordRefused)
	texts := o.result.Reason != "" || o.result.Error != "" || len(o.result.Output) > 0 || len(o.result.Value) > 0
	err := why
	if texts && r.refused < refusedForAll {
		err = r.write(ctx, []outcome{bare})
	}
	attrs := []any{"task", o.result.TaskID, "job", o.result.Task.Job, "pool", o.result.Task.Pool, "state", o.result.State}
	switch {
	case err == nil:
		r.refused = 0
		r.executor.log.Error("end recorded without its error, output and result, which the store refused", append(attrs, "refusal", why, "error", o.result.Error)...)
		return true
	case ctx.Err() != nil || !r.countRefusal(ctx, err):
		return false
	}
	if r.refused < refusedForAll {
		r.executor.log.Error("the store refuses a result; it is tried again", append(attrs, "refusal", err, "in", recordAgain.String())...)
	}
	r.aside = append(r.aside, o)
	if r.again == nil {
		r.again = time.After(recordAgain)
	}
	return true
}

// putBack queues the refused results again.
func (r *recorder) putBack() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.append(r.aside...)
	r.aside, r.again = nil, nil
}
