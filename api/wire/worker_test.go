package wire

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// A worker in Go reads the answer to its claim into the type that wrote it.
func TestClaimInJSON(t *testing.T) {
	at := time.Date(2026, 11, 28, 10, 0, 0, 123000, time.UTC)
	claim := Claim{Session: "s", Worker: "mailer-1", TTL: "10s", Beat: 10.0 / 3, Items: []ClaimedTask{
		{Task: jobs.Task{ID: "7", Pool: "mail", Kind: "pdf", State: jobs.StateRunning, Attempt: 1, Token: 3, Payload: []byte(`{"a":1}`), PayloadSize: 7, StartedAt: at}, Deadline: at.Add(time.Hour), IdempotencyKey: "prod/7"},
		{Task: jobs.Task{ID: "8", Pool: "mail", State: jobs.StateRunning}, Deadline: at, IdempotencyKey: "8"},
	}}
	text, err := json.Marshal(claim)
	if err != nil {
		t.Fatal(err)
	}
	var again Claim
	if err := json.Unmarshal(text, &again); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(claim, again); diff != "" {
		t.Errorf("read again (−written +read):\n%s", diff)
	}
}
