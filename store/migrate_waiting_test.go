package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/migrations"
	"github.com/lockstep-scheduler/lockstep/store"
)

// Migration 5 keeps which due times wait for their jobs' slots: until then next_at had digits below the second there, and the cursor
// was right before the due time.
func TestMigrationKeepsWhatWaits(t *testing.T) {
	eachDialect(t, func(t *testing.T, d store.Dialect, dsn string) {
		steps, err := migrations.For(d)
		if err != nil {
			t.Fatal(err)
		}
		s, raw := open(t, d, dsn, store.Options{}), openRaw(t, d, dsn)
		exec := func(text string, args ...any) {
			t.Helper()
			if _, err := raw.ExecContext(t.Context(), text, args...); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
		}
		exec(`CREATE TABLE lockstep_migrations (version INTEGER NOT NULL PRIMARY KEY, name VARCHAR(255) NOT NULL, min_compatible INTEGER NOT NULL, applied_at BIGINT NOT NULL)`)
		for _, step := range steps[:4] {
			for _, statement := range step.Statements("lockstep_") {
				exec(statement)
			}
			exec(`INSERT INTO lockstep_migrations (version, name, min_compatible, applied_at) VALUES (?, ?, ?, 1)`, step.Version, step.Name, step.MinCompatible)
		}
		due := time.Date(2026, 3, 1, 2, 30, 0, 0, time.UTC)
		for name, at := range map[string][2]time.Time{
			"waits":     {due.Add(-time.Microsecond), due.Add(time.Hour + 123457*time.Microsecond)},
			"is due":    {due.Add(-time.Minute), due},
			"began":     {due.Add(-time.Minute + 5*time.Microsecond), due},
			"not again": {due, time.UnixMicro(0)},
			"looked at": {due.Add(-time.Minute), due.Add(123457 * time.Microsecond)}, // not by what this program writes
		} {
			exec(`INSERT INTO lockstep_jobs (name, stripe, hash, schedule, config, cursor_at, next_at) VALUES (?, 1, 'h', 's', 1, ?, ?)`,
				name, at[0].UnixMicro(), at[1].UnixMicro())
		}
		exec(`INSERT INTO lockstep_triggers (job, at, seq, cause, outcome, reason, replica, decided_at) VALUES ('is due', 1, 0, 'schedule', 'skipped', 'suspended', 'r', 1)`)
		for range 2 { // its statements run a second time where MySQL was interrupted
			if err := s.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			exec(`DELETE FROM lockstep_migrations WHERE version = 5`)
		}
		if err := s.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		rows, err := s.Sides().API.Jobs(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, r := range rows {
			got[r.Name] = r.NextAt.Format("15:04:05.999999")
		}
		if want := fmt.Sprint(map[string]string{
			"waits": "02:30:00", "is due": "02:30:00", "began": "02:30:00", "not again": "00:00:00", "looked at": "02:30:00.123457",
		}); fmt.Sprint(got) != want {
			t.Errorf("the next due times are %v, want %s", got, want)
		}
		upcoming, err := s.Sides().Replica.Upcoming(t.Context(), []int{1})
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range upcoming {
			if u.Waits != (u.Job == "waits") {
				t.Errorf("%s waits: %v", u.Job, u.Waits)
			}
		}
		triggers, _, err := s.Triggers(t.Context(), wire.TriggerFilter{Job: "is due"})
		if err != nil || len(triggers) != 1 || triggers[0].Reason != "suspended" || triggers[0].ReasonCode != "" {
			t.Errorf("the ledger has %+v, %v", triggers, err)
		}
	})
}
