package store

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
)

// explained keeps the plan of each update before it is made.
type explained struct {
	sqlkit.Conn
	*planner
}

func (e explained) ExecContext(ctx context.Context, text string, args ...any) (sql.Result, error) {
	if strings.HasPrefix(text, "UPDATE") {
		explain := "EXPLAIN QUERY PLAN "
		if !e.lite {
			explain = Explain(e.t, e.Conn)
		}
		rows, err := e.planner.explain(ctx, explain+text, args...)
		if err != nil {
			return nil, err
		}
		e.plans = append(e.plans, rows...)
	}
	return e.Conn.ExecContext(ctx, text, args...)
}

func (e explained) QueryContext(ctx context.Context, text string, args ...any) (*sql.Rows, error) {
	return e.Conn.QueryContext(ctx, text, args...)
}

// What a new configuration replaces is found by its jobs: an edit of one does not read what governs of all the others.
func TestTheHistoryIsFoundByItsJobs(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, s *Store) {
		h := history{now: time.Unix(1, 0)}
		for i := range 2000 {
			h.replace(fmt.Sprintf("j%04d", i), jobModel{}, &ledger.JobDef{Hash: "first"})
		}
		if err := s.tx(t.Context(), "fill", h.write); err != nil {
			t.Fatal(err)
		}
		edit := history{now: time.Unix(2, 0)}
		edit.replace("j0007", jobModel{Defined: "first"}, &ledger.JobDef{Hash: "second"})
		p := &planner{t: t, lite: s.db.Dialect.Name() == SQLite}
		var governs []string
		err := s.tx(t.Context(), "edit", func(tx *tx) (err error) {
			p.Conn = tx.Conn
			if err = edit.write(s.within(tx.Ctx, explained{tx.Conn, p})); err != nil {
				return err
			}
			governs, err = column[string](tx.rows("SELECT hash FROM {definitions} WHERE job='j0007' AND until_at=0"))
			return err
		})
		if err != nil || len(governs) != 1 || governs[0] != "second" || len(p.plans) == 0 {
			t.Fatalf("%v governs, %v", governs, err)
		}
		if plans := strings.Join(p.plans, "\n"); strings.Contains(plans, "definitions_until") || !strings.Contains(plans, "(job=?)") && !strings.Contains(plans, "| PRIMARY |") {
			t.Errorf("it is not found by its job:\n%s", plans)
		}
	})
}
