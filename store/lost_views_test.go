package store_test

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/store"
)

// paged is a page and the cursor of the next one.
type paged struct {
	Rows any
	Next string
}

// views are the reads that may start again, with what they return.
var views = map[string]func(context.Context, *store.Store) (any, error){
	"tasks": func(ctx context.Context, s *store.Store) (any, error) {
		rows, next, err := s.Tasks(ctx, wire.TaskFilter{Page: wire.Page{Limit: 3}})
		return paged{rows, next}, err
	},
	"triggers": func(ctx context.Context, s *store.Store) (any, error) {
		rows, next, err := s.Triggers(ctx, wire.TriggerFilter{Page: wire.Page{Limit: 1}})
		return paged{rows, next}, err
	},
	"audit": func(ctx context.Context, s *store.Store) (any, error) {
		rows, next, err := s.Sides().Audit.AuditEntries(ctx, wire.Page{Limit: 1})
		return paged{rows, next}, err
	},
	"jobs": func(ctx context.Context, s *store.Store) (any, error) { return s.Sides().API.Jobs(ctx) },
	"job names": func(ctx context.Context, s *store.Store) (any, error) {
		return s.Sides().API.JobNames(ctx, "", "", true, 9)
	},
	"job standings": func(ctx context.Context, s *store.Store) (any, error) { return s.Sides().API.JobStandings(ctx) },
	"pools":         func(ctx context.Context, s *store.Store) (any, error) { return s.Sides().API.Pools(ctx) },
	"peers":         func(ctx context.Context, s *store.Store) (any, error) { return s.Sides().Replica.Peers(ctx) },
	"replicas":      func(ctx context.Context, s *store.Store) (any, error) { return s.Sides().API.Replicas(ctx) },
	"next due":      func(ctx context.Context, s *store.Store) (any, error) { return s.Sides().API.NextDue(ctx, 10) },
	"overview":      func(ctx context.Context, s *store.Store) (any, error) { return s.Sides().API.Overview(ctx, 10) },
	"migrations":    func(ctx context.Context, s *store.Store) (any, error) { return s.Sides().Admin.MigrationStatus(ctx) },
	"namespace":     func(ctx context.Context, s *store.Store) (any, error) { return s.Namespace(ctx) },
}

// A view that meets a fault starts again from nothing: it returns what it would have returned without.
func TestViewsStartAgain(t *testing.T) {
	s := behindFaultyFile(t, fate{})
	s.dialect = store.SQLite
	s.enter()
	p := &play{stage: s, what: "before", starts: map[string]int{}, knows: map[string]jobs.Task{}}
	p.enqueue(3)
	p.decide(s.plain, true)
	p.decide(s.plain, false)
	claimed, err := s.plain.Sides().Replica.Claim(t.Context(), p.claiming(s.session))
	p.check(err)
	var results []ledger.Result
	for _, task := range claimed.Tasks[:2] {
		results = append(results, ledger.Result{TaskID: task.ID, Token: task.Token, Verdict: ledger.Ended, State: jobs.StateFailed})
	}
	_, err = s.plain.Sides().Replica.Finish(t.Context(), s.session, results)
	p.check(err)
	for range 2 {
		p.check(s.plain.Sides().Audit.AddAudit(t.Context(), wire.AuditEntry{Action: "look"}))
	}
	all := maps.Clone(views)
	all["own tasks"] = func(ctx context.Context, st *store.Store) (any, error) {
		return st.Sides().Replica.Running(ctx, s.session)
	}
	for name, view := range all {
		want, err := view(t.Context(), s.plain)
		p.check(err)
		if reflect.ValueOf(want).IsZero() {
			t.Errorf("%s: nothing is seen", name)
		}
		for _, f := range []fate{{name: "at once", again: true}, {name: "behind a row", again: true, half: true}} {
			for k := 1; ; k++ {
				s.cut.arm(f, k, func() {})
				got, err := view(t.Context(), s.wired)
				if lost := s.cut.disarm(); len(lost) == 0 {
					break
				}
				if err != nil {
					t.Errorf("%s, statement %d, %s: %v", name, k, f.name, err)
				}
				if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(ledger.Overview{}, "At")); diff != "" {
					t.Errorf("%s, statement %d, %s: %s", name, k, f.name, diff)
				}
			}
		}
	}
}

// A page that starts again, and meanwhile is the last one, is followed by none.
func TestThePageThatStartsAgainIsTheLast(t *testing.T) {
	s := behindFaultyFile(t, fate{})
	s.dialect = store.SQLite
	s.enter()
	p := &play{stage: s, what: "pages"}
	p.enqueue(3)
	ids := slices.Sorted(slices.Values(p.tasks))
	s.cut.arm(fate{again: true}, 3, func() { s.db.Exec(t, "DELETE FROM {tasks} WHERE id=?", ids[0]) }) // after the ids, of the rows
	page, next, err := s.wired.Tasks(t.Context(), wire.TaskFilter{Page: wire.Page{Limit: 2}})
	if lost := s.cut.disarm(); err != nil || len(lost) != 1 {
		t.Fatalf("lost %q: %v", lost, err)
	}
	if len(page) != 2 || page[0].ID != ids[2] || page[1].ID != ids[1] || next != "" {
		t.Errorf("%+v, next %q", page, next)
	}
}
