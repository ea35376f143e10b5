package store

import (
	"fmt"
	"strings"

	"github.com/lockstep-scheduler/lockstep/internal/paging"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

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
