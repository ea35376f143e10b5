package storetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/store"
)

// Tasks of a busy pool are cancelled all the same: a task that others change each time that the batch is tried, as claims do that are handed
// back, does not keep it from the others.
func bulkCancelBesideClaims(t *testing.T, b *Bench) {
	if b.Dialect == store.SQLite {
		return // there, no other process writes between the statements of a batch
	}
	const changes = 3
	s := newScene(t, b)
	made := s.enqueue("work", 400)
	ended := make(chan struct{})
	Together(t, changes+1, func(ctx context.Context, i int) error {
		if i == changes {
			defer close(ended)
			got, err := b.Store.ChangeTasks(ctx, wire.BulkCancel, wire.Bulk{TaskMatch: wire.TaskMatch{Pool: "work"}, Limit: 500, By: "dave"})
			if err != nil {
				return err
			}
			if got.Matched != len(made) || got.Done != len(made) {
				return fmt.Errorf("%d of %d are done", got.Done, got.Matched)
			}
			latest := slices.SortedFunc(slices.Values(made), func(a, b string) int { return strings.Compare(b, a) })
			if !slices.Equal(idsOf(got.Tasks), latest) {
				return fmt.Errorf("changed %v", idsOf(got.Tasks))
			}
			return nil
		}
		for others := 0; others < 300; {
			select {
			case <-ended:
				return nil
			default:
			}
			if _, err := b.DB.Handle().ExecContext(ctx, "UPDATE lockstep_tasks SET token=token+1 WHERE id=?", made[0]); err != nil {
				return err
			}
			if err := b.DB.Handle().QueryRowContext(ctx, "SELECT COUNT(*) FROM lockstep_done").Scan(&others); err != nil {
				return err
			}
		}
		return nil
	})
	s.wantInt(400, "SELECT COUNT(*) FROM {done} WHERE state='cancelled' AND reason='cancelled by dave'")
}
