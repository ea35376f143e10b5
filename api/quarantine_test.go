//go:build !fuzz

package api

import (
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

// TestQuarantineOverSQLite: a task that took three replicas with it says which, and when.
func TestQuarantineOverSQLite(t *testing.T) {
	t.Parallel()
	h, st := overSQLiteStore(t)
	id := decode[page](t, ask(t, h, "POST", "/api/v1/pools/mail/tasks", `{"kind":"welcome"}`).Body.String()).Items[0].ID
	s := st.Sides().Replica
	var claims []ledger.Started
	names := []string{"one", "two", "three"}
	for _, name := range names {
		session, err := s.Join(t.Context(), ledger.Member{Replica: name, LockService: "none"})
		if err != nil {
			t.Fatal(err)
		}
		claimed, err := s.Claim(t.Context(), ledger.Claim{
			Admission: ledger.Admission{
				Session: session, Replica: name, Pools: map[string]ledger.Share{"mail": {Hash: "h", Room: 1}},
				Admit: func(now time.Time, _ ledger.Candidate) (time.Time, bool) { return now.Add(time.Microsecond), true },
			},
			Pool: "mail", ID: "c", Now: func(database time.Time) (time.Time, error) { return database, nil },
		})
		if err != nil || len(claimed.Tasks) != 1 {
			t.Fatalf("%+v, %v", claimed, err)
		}
		claims = append(claims, claimed.Tasks...)
		if err := s.Leave(t.Context(), session); err != nil {
			t.Fatal(err)
		}
		await.Until(t, "the task is reaped", func() bool {
			reaped, err := s.Reap(t.Context(), 10)
			return err == nil && len(reaped) == 1
		})
	}
	got := decode[wire.Task](t, ask(t, h, "GET", "/api/v1/tasks/"+id, "").Body.String())
	if got.State != jobs.StateLost || got.ReasonCode != reason.Quarantined || len(got.Quarantine) != 3 || len(got.Attempts) != 2 {
		t.Fatalf("%+v", got)
	}
	for i, is := range got.Quarantine {
		if is.Attempt != i+1 || is.Replica != names[i] || !is.StartedAt.Equal(claims[i].Task.StartedAt) || !is.LostAt.After(is.StartedAt) {
			t.Errorf("%d: %+v", i, is)
		}
	}
}
