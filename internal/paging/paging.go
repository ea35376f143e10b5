// Package paging bounds the pages of lists and encodes their cursors.
package paging

import (
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

const (
	// Bytes is the size after which a page ends, whatever its limit is.
	Bytes = 1 << 20
	// DefaultLimit and MaxLimit are how many rows a page has at most.
	DefaultLimit, MaxLimit = 50, 500
)

// Limit is the limit of a page, DefaultLimit for 0; jobs.ErrInvalid if it is not within 1 … MaxLimit.
func Limit(limit int) (int, error) {
	switch {
	case limit == 0:
		return DefaultLimit, nil
	case limit < 1 || limit > MaxLimit:
		return 0, fmt.Errorf("limit: %w: %d is not within 1 … %d", jobs.ErrInvalid, limit, MaxLimit)
	}
	return limit, nil
}

// Cursor names the last row of a page of a list by its sort key. Only the last part may hold a line break.
func Cursor(list string, key ...string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(list + "\n" + strings.Join(key, "\n")))
}

// ReadCursor is the inverse; nil for "", which asks for the first page, jobs.ErrInvalid for a cursor of another
// list or with another number of parts.
func ReadCursor(cursor, list string, parts int) (key []string, err error) {
	if cursor == "" {
		return nil, nil
	}
	text, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	read := strings.SplitN(string(text), "\n", parts+1)
	if err != nil || read[0] != list || len(read) != parts+1 {
		return nil, fmt.Errorf("cursor: %w: %.40q is not a cursor of this list", jobs.ErrInvalid, cursor)
	}
	return read[1:], nil
}
