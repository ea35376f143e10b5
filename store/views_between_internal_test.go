package store

import (
	"testing"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// The statements of a view see different moments. What was made after the first of them is left out, and what went away is
// missed by none of the others.
func TestViewsWithWhatCameInBetween(t *testing.T) {
	eachStore(t, viewsWithWhatCameInBetween)
}

func viewsWithWhatCameInBetween(t *testing.T, s *Store) {
	err := s.tx(t.Context(), "test", func(t *tx) error {
		for _, text := range []string{
			`INSERT INTO {jobs} (name, stripe, hash, schedule, config, cursor_at, next_at) VALUES ('j', 1, 'h', 's', 1, 5, 9)`,
			`INSERT INTO {triggers} (job, at, seq, cause, outcome, result, replica, decided_at) VALUES ('j', 5, 0, 'schedule', 'ran', 'succeeded', 'r', 5)`,
			`INSERT INTO {tasks} (id, pool, job, state, run_at, payload, tags, error, created_at) VALUES ('t', 'p', 'j', 0, 1, '', '', '', 1)`,
		} {
			if _, err := t.Exec(text); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, part := range map[string]func(t *tx) error{
		"open tasks of a new job":     func(t *tx) error { return t.countOpen(nil, map[string]*ledger.JobStatus{}) },
		"triggers of a new job":       func(t *tx) error { return t.lastTriggers(nil, map[string]*ledger.JobStatus{}) },
		"successes of a new job":      func(t *tx) error { return t.lastSuccesses(nil, map[string]*ledger.JobStatus{}) },
		"tasks of a new pool":         func(t *tx) error { return t.countAll(poolsByName{}) },
		"some of a new pool":          func(t *tx) error { return t.countSome(poolsByName{}) },
		"no job that fails any more":  func(t *tx) error { _, err := t.reasons(nil); return err },
		"no unmet due time any more":  func(t *tx) error { return t.firstUnmet(nil) },
		"no task of a page any more":  func(t *tx) error { _, _, err := t.listed(nil); return err },
		"tasks that are looked up":    func(t *tx) error { _, err := t.tasksByID(nil); return err },
		"tasks that have moved on":    func(t *tx) error { _, err := t.taskIDs(wire.TaskFilter{State: jobs.StateLost}, nil, 5); return err },
		"standings of a pool no more": func(t *tx) error { _, err := t.changedPools(nil); return err },
	} {
		if err := s.read(t.Context(), name, part); err != nil {
			t.Error(err)
		}
	}
}
