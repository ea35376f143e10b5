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

// looked is how many tasks a page looks at that selects them by what no index has.
const looked = 2000

// walk returns at most n of the ids that fit, the latest first, and the id that the next page comes after; "" behind the last one. read reads the
// next ids, at least so many if there are; fits reads what it needs of some, and says which of them fit. It looks at 2,000.
func walk(after []string, n int, read func(after []string, n int) ([]string, error), fits func(ids []string) (func(id string) bool, error)) (found []string, last string, err error) {
	for left := looked; left > 0; {
		most := min(left, paging.MaxLimit)
		ids, err := read(after, most)
		if err != nil {
			return nil, "", err
		}
		end := len(ids) < most
		ids = ids[:min(most, len(ids))]
		fit, err := fits(ids)
		if err != nil {
			return nil, "", err
		}
		for _, id := range ids {
			if fit(id) {
				found = append(found, id)
			}
			if len(found) == n {
				return found, id, nil
			}
		}
		if end {
			return found, "", nil
		}
		left -= len(ids)
		last, after = ids[len(ids)-1], ids[len(ids)-1:]
	}
	return found, last, nil
}
