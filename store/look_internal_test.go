package store

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// behind makes a pool p with n tasks of a kind that no replica has, and behind them one of a kind that a replica has.
func behind(t testing.TB, s *Store, n int) (last time.Time) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	begin := time.Now().Add(-time.Hour).Truncate(time.Second)
	at := func(i int) time.Time { return begin.Add(time.Duration(i) * time.Microsecond) }
	err := s.tx(ctx, "fill", func(t *tx) error {
		var tasks [][]any
		for i := range n + 1 {
			kind := "typo"
			if i == n {
				kind = "known"
			}
			tasks = append(tasks, []any{uuid.Must(uuid.NewV7()).String(), "p", kind, 0, micros(at(i)), []byte("payload"), []byte{}, []byte{}, micros(at(i))})
		}
		if _, err := t.Exec(`INSERT INTO {pools} (name, hash, config, max_running, max_attempts, on_lost) VALUES ('p', 'h', 1, 0, 1, 'fail')`); err != nil {
			return err
		}
		_, err := t.Insert(`{tasks} (id, pool, kind, state, run_at, payload, tags, error, created_at)`, tasks)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return at(n)
}

// reads is how many rows, or entries of indexes, the connection has read by what it did.
func reads(t *tx, do func() error) (n int, err error) {
	count := func() (sum int, err error) {
		err = t.Query(`SHOW SESSION STATUS LIKE 'Handler_read%'`, nil, func(scan func(...any) error) error {
			var name string
			var n int
			err := scan(&name, &n)
			sum += n
			return err
		})
		return sum, err
	}
	before, err := count()
	if err != nil {
		return 0, err
	}
	if err := do(); err != nil {
		return 0, err
	}
	after, err := count()
	return after - before, err
}

// However many tasks are out of scope, Look and Claim read a bounded number of rows.
func TestALookReadsSoMuch(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, s *Store) {
		const many, most = 10_000, 100
		last := behind(t, s, many)
		scope := ledger.Scope{Kinds: []string{"known"}}
		for name, c := range map[string]struct {
			past time.Time
			work bool
		}{
			"in front":   {time.Time{}, false},
			"among":      {last.Add(-many / 2 * time.Microsecond), false},
			"work":       {last.Add(-most / 2 * time.Microsecond), true},
			"at the end": {last.Add(-time.Microsecond), true},
			"behind":     {last, false},
		} {
			var seen ledger.Seen
			look := func(t *tx) error {
				seen = ledger.Seen{Past: map[int]time.Time{}}
				if _, _, err := t.nextRank("p", -101); err != nil {
					return err
				}
				return t.lookAt("p", 0, ledger.Look{Scope: scope, Past: map[int]time.Time{0: c.past}, Most: most}, &seen)
			}
			claim := func(t *tx) error {
				w := &claim{Claim: ledger.Claim{Pool: "p", Scope: scope}, now: time.Now()}
				w.Scope.Within = &ledger.Window{After: c.past, UpTo: seen.Past[0]}
				if seen.Work != nil {
					w.Scope.Within = seen.Work
				}
				w.Admit = func(now time.Time, _ ledger.Candidate) (time.Time, bool) { return now, true }
				w.admission = newAdmission(w.Admission, w.now)
				w.admission.pools["p"] = &poolRow{room: 50}
				err := w.choose(t, 50)
				if err == nil && len(w.taken) > 0 != c.work {
					err = fmt.Errorf("it would claim %d", len(w.taken))
				}
				return err
			}
			for _, what := range []string{"a look", "a claim"} {
				do := look
				if what == "a claim" {
					if do = claim; seen.Work == nil && len(seen.Past) == 0 {
						continue
					}
				}
				err := s.read(t.Context(), "test", func(tx *tx) error {
					if s.db.Dialect.Name() == MySQL {
						n, err := reads(tx, func() error { return do(tx) })
						if err == nil && n > 5*most {
							t.Errorf("%s %s: it reads %d", what, name, n)
						}
						return err
					}
					p := &planner{Conn: tx.Conn, t: t, lite: true}
					if err := do(s.within(tx.Ctx, p)); err != nil {
						return err
					}
					ends := 0
					for _, plan := range p.tables() {
						rank := strings.Contains(plan, "lockstep_tasks_claim (state=? AND pool=? AND rank_order>?")
						if !rank && !strings.Contains(plan, "lockstep_tasks_claim (state=? AND pool=? AND rank_order=?") ||
							!rank && !c.past.IsZero() && !strings.Contains(plan, "run_at>?") {
							t.Errorf("%s %s: %s", what, name, plan)
						}
						if strings.Contains(plan, "run_at<?") {
							ends++
						}
					}
					if len(seen.Past) > 0 && ends == 0 {
						t.Errorf("%s %s has no end: %q", what, name, p.plans)
					}
					return nil
				})
				if err != nil {
					t.Errorf("%s %s: %v", what, name, err)
				}
			}
			if seen.Work != nil != c.work || len(seen.Past) > 0 != (name == "in front" || name == "among") {
				t.Errorf("%s: %+v", name, seen)
			}
		}
	})
}

// BenchmarkLook measures a poll, with a Look, beside 50,000 tasks that the replica cannot run.
func BenchmarkLook(b *testing.B) {
	for name, open := range map[string]func(b *testing.B) *Store{
		"sqlite": func(b *testing.B) *Store {
			return migrated(b, "sqlite", filepath.Join(b.TempDir(), "a.db"), Options{})
		},
		"mysql": func(b *testing.B) *Store { return migrated(b, "mysql", servers.MySQL(b), Options{}) },
	} {
		b.Run(name, func(b *testing.B) {
			s := open(b)
			now := func(now time.Time) (time.Time, error) { return now, nil }
			poll := func(b *testing.B, most int, past time.Time) {
				for b.Loop() {
					is, err := s.Sides().Replica.Ready(b.Context(), now)
					if err == nil && len(is.Pools) > 0 {
						_, err = s.Sides().Replica.Look(b.Context(), "p", ledger.Look{Scope: ledger.Scope{Kinds: []string{"other"}}, Past: map[int]time.Time{0: past}, Most: most})
					}
					if err != nil {
						b.Fatal(err)
					}
				}
			}
			b.Run("empty", func(b *testing.B) { poll(b, 1000, time.Time{}) })
			last := behind(b, s, 50_000)
			b.Run("all", func(b *testing.B) { poll(b, 100_000, time.Time{}) })
			b.Run("walk", func(b *testing.B) { poll(b, 1000, time.Time{}) })
			b.Run("rest", func(b *testing.B) { poll(b, 1000, last.Add(-500*time.Microsecond)) })
			b.Run("end", func(b *testing.B) { poll(b, 1000, last) })
		})
	}
}
