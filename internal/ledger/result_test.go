package ledger_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// The row after a result is the one in the answer, or what the owner knew with what the result says, as a store keeps it.
func TestTheRowAfterAResult(t *testing.T) {
	at, exit := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC), 3
	known := jobs.Task{
		ID: "1", Pool: "p", Kind: "k", State: jobs.StateRunning, Attempt: 2, Token: 7, Payload: json.RawMessage(`"x"`), PayloadSize: 3, RetriedAs: "2",
	}
	r := ledger.Result{TaskID: "1", Token: 7, Verdict: ledger.Ended, State: jobs.StateFailed, Reason: strings.Repeat("r", 513), Code: reason.ExitCode, Error: "bang", ExitCode: &exit, Task: &known}
	want := jobs.Task{
		ID: "1", Pool: "p", Kind: "k", State: jobs.StateFailed, Attempt: 2, Token: 7, Reason: strings.Repeat("r", 512), ReasonCode: reason.ExitCode, Error: "bang", ExitCode: &exit, FinishedAt: at,
	}
	want.Fingerprint = jobs.Fingerprint(want)
	if d := cmp.Diff(want, ledger.Finished{TaskID: "1", State: jobs.StateFailed, At: at}.Row(r)); d != "" || want.Fingerprint == "" {
		t.Errorf("what the owner knew (-want +got):\n%s", d)
	}
	if known.State != jobs.StateRunning || len(known.Payload) == 0 {
		t.Errorf("the owner's task has changed: %+v", known)
	}
	read := jobs.Task{ID: "1", State: jobs.StateCancelled}
	if d := cmp.Diff(read, ledger.Finished{TaskID: "1", State: jobs.StateCancelled, Task: &read}.Row(r)); d != "" {
		t.Errorf("what the answer has (-want +got):\n%s", d)
	}
}
