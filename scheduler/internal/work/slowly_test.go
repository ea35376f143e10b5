package work

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/wake"
)

// slowly is a store that takes some time for each result, and for each byte of their texts.
type slowly struct{ *replicatest.Picky }

const (
	perResult = recordCall / 40
	perByte   = recordCall / recordBytes
)

func (s slowly) Finish(ctx context.Context, session string, results []ledger.Result) ([]ledger.Finished, error) {
	takes := time.Duration(len(results)) * perResult
	for _, r := range results {
		takes += time.Duration(len(r.Output)) * perByte
	}
	if !wake.Wait(ctx, takes, nil) {
		return nil, fmt.Errorf("%w: invalid connection", jobs.ErrUnavailable)
	}
	return s.Picky.Finish(ctx, session, results)
}

// A batch that takes longer than a call may is written in parts.
func TestASlowStoreGetsSmallerBatches(t *testing.T) {
	for name, text := range map[string]int{"many results": 1, "long outputs": 1 << 20} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := replicatest.NewPicky(nil)
				s := replicaOn(t, slowly{st}, replicatest.Blocked{})
				const n = recordBatch
				output := make([]byte, text)
				for i := range n {
					task := jobs.Task{ID: strconv.Itoa(i), Pool: "p"}
					s.work.recorder.add("session", &task, ledger.Result{TaskID: task.ID, Verdict: ledger.Ended, State: jobs.StateSucceeded, Output: output})
				}
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan struct{})
				go func() { defer close(ended); s.work.recorder.run(ctx) }()
				defer func() { stop(); <-ended }()
				time.Sleep(n * recordCall)
				if _, taken := st.Seen(); len(taken) != n || !settledNow(s) {
					t.Errorf("%d of %d are recorded", len(taken), n)
				}
			})
		})
	}
}
