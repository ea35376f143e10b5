package store

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/jobs/ledger"
)

// attentive is a dialect that counts the transactions that may write, and lets others work before one of them begins.
type attentive struct {
	dialect
	begins int
	before func(n int)
}

func (a *attentive) begin(ctx context.Context, conn *sql.Conn) error {
	a.begins++
	if a.before != nil {
		a.before(a.begins)
	}
	return a.dialect.begin(ctx, conn)
}

// A replica that has nothing to do keeps nobody from writing, however often it looks.
func TestWhoHasNothingToDoWritesNothing(t *testing.T) {
	s := migrated(t, "sqlite", filepath.Join(t.TempDir(), "a.db"), Options{})
	session, err := s.Join(t.Context(), ledger.Member{Replica: "r", LockService: "x"})
	if err != nil {
		t.Fatal(err)
	}
	d := ledger.Definitions{
		Jobs:  []ledger.JobDef{{Name: "j", Hash: "1", Schedule: "s", Next: func(t time.Time) time.Time { return t.Add(time.Hour) }}},
		Pools: []ledger.PoolDef{{Name: "p", Hash: "1", MaxAttempts: 5}},
	}
	if _, err := s.Load(t.Context(), session, d); err != nil {
		t.Fatal(err)
	}
	a := &attentive{dialect: s.dialect}
	s.dialect = a
	same := func(now time.Time) (time.Time, error) { return now, nil }
	for name, do := range map[string]func() error{
		"ready":    func() error { _, _, err := s.Ready(t.Context(), same); return err },
		"reap":     func() error { _, err := s.Reap(t.Context(), 9); return err },
		"look":     func() error { _, err := s.Look(t.Context(), "p", ledger.Look{Most: 9}); return err },
		"own":      func() error { _, err := s.Own(t.Context(), session); return err },
		"assert":   func() error { _, err := s.Assert(t.Context(), session, d); return err },
		"upcoming": func() error { _, err := s.Upcoming(t.Context(), nil); return err },
		"claim": func() error {
			_, err := s.Claim(t.Context(), ledger.Claim{Session: session, Pool: "p", Hash: "1"})
			return err
		},
		"finish":  func() error { _, err := s.Finish(t.Context(), session, nil); return err },
		"extend":  func() error { _, err := s.Extend(t.Context(), session, nil); return err },
		"enqueue": func() error { _, err := s.Enqueue(t.Context()); return err },
	} {
		a.begins = 0
		if err := do(); err != nil || a.begins > 0 {
			t.Errorf("%s: %v, in %d transactions that may write", name, err, a.begins)
		}
	}
}

// An older configuration stops being written once a newer one is loaded, whichever of its batches is next.
func TestANewerConfigurationStopsAnOlderOne(t *testing.T) {
	for n := 1; n <= 3; n++ {
		t.Run(fmt.Sprint("before batch ", n), func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "a.db")
			other, s := migrated(t, "sqlite", file, Options{}), migrated(t, "sqlite", file, Options{})
			join := func(replica string) string {
				t.Helper()
				session, err := other.Join(t.Context(), ledger.Member{Replica: replica, LockService: "x"})
				if err != nil {
					t.Fatal(err)
				}
				return session
			}
			definitions := func(hash string) (d ledger.Definitions) {
				d.Pools = []ledger.PoolDef{{Name: "p", Hash: hash, MaxAttempts: 5}}
				for i := range rowsPerStatement + 1 {
					d.Jobs = append(d.Jobs, ledger.JobDef{Name: fmt.Sprintf("j%04d", i), Hash: hash, Schedule: "s", Next: func(t time.Time) time.Time { return t.Add(time.Hour) }})
				}
				return d
			}
			session := join("older")
			if _, err := other.Load(t.Context(), session, ledger.Definitions{}); err != nil {
				t.Fatal(err)
			}
			a := &attentive{dialect: s.dialect}
			a.before = func(begins int) {
				if begins == n {
					if _, err := other.Load(t.Context(), join("newer"), definitions("newer")); err != nil {
						t.Error(err)
					}
				}
			}
			s.dialect = a
			got, err := s.Assert(t.Context(), session, definitions("older"))
			if err != nil || got.Governs || a.begins != n {
				t.Errorf("governs: %v, after %d batches, %v", got.Governs, a.begins, err)
			}
			want := fmt.Sprint("newer ", rowsPerStatement+1)
			if d := cmp.Diff([]string{want, "newer"}, []string{
				text(t, s, "SELECT MIN(hash) || ' ' || COUNT(*) FROM {jobs} WHERE hash='newer'"), text(t, s, "SELECT hash FROM {pools} WHERE name='p'"),
			}); d != "" {
				t.Error(d)
			}
		})
	}
}
