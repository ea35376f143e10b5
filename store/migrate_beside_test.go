package store_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/process"
	"github.com/lockstep-scheduler/lockstep/store"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

// A migration after which older programs must not use the schema is refused until no replica is live. Which programs the
// replicas have is not checked: a live one has one that has no more migrations than the schema.
func TestMigrateBesideReplicas(t *testing.T) {
	eachDialect(t, func(t *testing.T, d store.Dialect, dsn string) {
		s := open(t, d, dsn, store.Options{})
		raw := openRaw(t, d, dsn)
		exec := func(text string) {
			t.Helper()
			if _, err := raw.ExecContext(t.Context(), text); err != nil {
				t.Fatal(err)
			}
		}
		back := func() { exec(`DELETE FROM lockstep_migrations WHERE version >= 5`) } // 5 raises the least version of a program
		join := func(m ledger.Member) string {
			t.Helper()
			m.LockService = "x"
			id, err := s.Sides().Replica.Join(t.Context(), m)
			if err != nil {
				t.Fatal(err)
			}
			return id
		}
		if err := s.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		session := join(ledger.Member{Replica: "one", Host: "elsewhere", TTL: time.Hour})
		join(ledger.Member{Replica: "two", Host: "elsewhere", TTL: time.Hour})
		if err := s.Migrate(t.Context()); err != nil {
			t.Errorf("with nothing to do: %v", err)
		}
		back()
		refused := s.Migrate(t.Context())
		if !errors.Is(refused, store.ErrSchema) || !strings.Contains(refused.Error(), "Stop all replicas first") ||
			!strings.Contains(refused.Error(), "at work: one, two (one that was killed counts as gone after 1h0m0s)") {
			t.Errorf("%v, want it refused, with the names of those at work", refused)
		}
		if all, err := s.Sides().Admin.MigrationStatus(t.Context()); err != nil || !all[4].AppliedAt.IsZero() {
			t.Errorf("%+v, %v; want it not applied", all, err)
		}

		if err := s.Sides().Replica.Leave(t.Context(), session); err != nil {
			t.Fatal(err)
		}
		exec(`UPDATE lockstep_sessions SET ttl = 300000, seen_at = seen_at + 1000000 WHERE replica = 'two'`)
		if err := s.Migrate(t.Context()); err == nil || !strings.Contains(err.Error(), "at work: two (") {
			t.Errorf("%v, want two alone to be at work", err)
		}
		await.Until(t, "a replica that was killed counts as gone", func() bool { return s.Migrate(t.Context()) == nil })

		back()
		host, err := os.Hostname()
		if err != nil {
			t.Fatal(err)
		}
		self := process.Self()
		join(ledger.Member{Replica: "three", Host: host, BootID: self.Boot, PID: self.PID, PIDStart: self.Start + 1, TTL: time.Hour})
		if err := s.Migrate(t.Context()); err != nil {
			t.Errorf("the process of the only live session is gone: %v", err)
		}
		back()
		exec(`UPDATE lockstep_sessions SET dead = 1, live = NULL`)
		join(ledger.Member{Replica: "four", Host: host, BootID: self.Boot, PID: self.PID, PIDStart: self.Start, TTL: time.Hour})
		if err := s.Migrate(t.Context()); !errors.Is(err, store.ErrSchema) {
			t.Errorf("%v; the process is at work", err)
		}

		exec(`DELETE FROM lockstep_migrations WHERE version >= 4`) // to the one before: programs of 4 and 5 could use it, were 5 not raised
		if err := s.Migrate(t.Context()); !errors.Is(err, store.ErrSchema) {
			t.Errorf("from two versions before: %v", err)
		}
	})
}
