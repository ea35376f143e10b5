package store

import (
	"context"
	"fmt"
	"strings"

	"github.com/lockstep-scheduler/lockstep/internal/paging"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// page is the first rows of a list that read reads, and the cursor of the next page, "" after the last.
func page[R any](ctx context.Context, s *Store, op string, limit int, read func(t *tx, n int) ([]R, error), cursor func(last R) string) ([]R, string, error) {
	limit, err := paging.Limit(limit)
	if err != nil {
		return nil, "", err
	}
	rows, err := get(ctx, s.view, op, func(t *tx) ([]R, error) { return read(t, limit+1) })
	if len(rows) <= limit {
		return rows, "", err
	}
	return rows[:limit], cursor(rows[limit-1]), nil
}

// readCursor is [paging.ReadCursor] for keys without line breaks.
func readCursor(cursor, list string, parts int) ([]string, error) {
	key, err := paging.ReadCursor(cursor, list, parts)
	if err == nil && key != nil && strings.Contains(key[parts-1], "\n") {
		return nil, notOfList(cursor)
	}
	return key, err
}

func notOfList(cursor string) error {
	return fmt.Errorf("cursor: %w: %.40q is not a cursor of this list", jobs.ErrInvalid, cursor)
}
