package store

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
)

// errSplit: a row of a batch was changed meanwhile, and others of the batch may be done without it.
var errSplit = errors.New("a row of the batch was changed by another transaction in between")

// changeParts writes the batch: in one transaction, unless others change some of its rows all the time. Then it is tried as two halves, and
// so on down to single tasks: a row that changes holds up no other.
func (s *Store) changeParts(ctx context.Context, op string, w *bulk) (err error) {
	all := wire.BulkResult{Tasks: []wire.BulkTask{}, Next: w.next}
	slices.SortFunc(w.picked, func(a, b string) int { return strings.Compare(b, a) })
	ledger.Halve(w.picked, func(ids []string) (refused, goOn bool) {
		w.picked = ids
		if err = s.settle(ctx, op, w.write, w.committed); errors.Is(err, errSplit) {
			return true, true
		}
		all.Add(w.out)
		return false, err == nil
	})
	w.out = all
	return err
}
