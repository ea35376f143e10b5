//go:build !fuzz

package api_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/api"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
)

// A token opens only so many sessions: a script that claims without one each time is told so, and what has a session goes on.
func TestSessionsOfOneToken(t *testing.T) {
	o := openOffice(t, 1, time.Minute, api.Options{})
	session, _ := o.claim(0, "mail", "", map[string]any{"wait": "0s"})
	for i := range ledger.MostWorkers - 1 {
		_, err := o.store.Sides().Replica.Join(t.Context(), ledger.Member{Replica: fmt.Sprint("w-", i), Pool: "mail", Kinds: []string{""}, TTL: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
	}
	status, answer := o.call(0, "POST", "pools/mail/claim", map[string]any{"wait": "0s"})
	refusal, _ := answer["error"].(map[string]any)
	if status != 429 || refusal["code"] != "busy" || !strings.Contains(fmt.Sprint(refusal["message"]), "claim with the session") {
		t.Errorf("one more: %d %v", status, answer)
	}
	if again, _ := o.claim(0, "mail", session, map[string]any{"wait": "0s"}); again != session {
		t.Errorf("the session %s claims as %s", session, again)
	}
	if status, answer := o.call(0, "DELETE", "workers/"+session, map[string]any{}); status != 200 {
		t.Errorf("%d %v", status, answer)
	}
	o.claim(0, "mail", "", map[string]any{"wait": "0s"})
}
