package work

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/wake"
)

// progressEvery is how long after one write of progress the next one comes, at the earliest.
const progressEvery = time.Second

// reports is what the handler of an attempt has reported. It is the Reporter of its task. Calls after the attempt is over change nothing.
type reports struct {
	wake chan struct{} // of writeProgress

	mu      sync.Mutex
	over    bool
	known   bool // something was reported
	done    float64
	text    string
	changed bool // since it was written
	result  json.RawMessage
}

var _ jobs.Reporter = (*reports)(nil)

// ReportProgress implements jobs.Reporter.
func (r *reports) ReportProgress(done float64, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over || r.known && r.done == done && r.text == text {
		return
	}
	r.known, r.done, r.text, r.changed = true, done, text, true
	wake.Send(r.wake)
}

// ReportResult implements jobs.Reporter.
func (r *reports) ReportResult(result json.RawMessage) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return fmt.Errorf("result: %w: the attempt has ended", jobs.ErrInvalid)
	}
	r.result = result
	return nil
}

// end returns the result of the attempt, whose handler has returned.
func (r *reports) end() json.RawMessage {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over, r.changed = true, false
	return r.result
}

// take returns what has changed since the last call.
func (r *reports) take() (done float64, text string, changed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	changed, r.changed = r.changed, false
	return r.done, r.text, changed
}

// putBack has what was taken and not written taken again.
func (r *reports) putBack() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changed = !r.over
}

// writeProgress writes what attempts report of their progress, and what they write, until ctx is done. While nothing changes, nothing is sent.
//
//  1. wait until an attempt reports, or writes
//  2. write what has changed, of all attempts, in one call for progress and one for outputs (output.go); what could not be written is left for the next one
//  3. wait progressEvery, and begin again
func (e *Executor) writeProgress(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.wakeProgress:
		}
		e.reportProgress(ctx)
		e.writeOutput(ctx)
		if !wake.Wait(ctx, progressEvery, nil) {
			return
		}
	}
}

func (e *Executor) reportProgress(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, rowsCall)
	defer cancel()
	ses := e.member.Session()
	var written []ledger.Progress
	var of []*attempt
	for _, a := range e.register.attempts() {
		if a.session != ses.ID { // its row is no session's that lives
			continue
		}
		if done, text, changed := a.reports.take(); changed {
			written, of = append(written, ledger.Progress{TaskID: a.task.ID, Token: a.task.Token, Done: done, Text: text}), append(of, a)
		}
	}
	if len(written) == 0 {
		return
	}
	if _, err := e.store.Report(ctx, ses.ID, written); err != nil && !refusal(err) {
		for _, a := range of {
			a.reports.putBack()
		}
		wake.Send(e.wakeProgress)
	}
}
