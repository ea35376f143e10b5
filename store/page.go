package store

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// pageBytes is after how many bytes a page ends, whatever its limit is.
const pageBytes = 1 << 20

// errPageFull ends a query.
var errPageFull = errors.New("the page is full")

func pageLimit(limit int) (int, error) {
	switch {
	case limit == 0:
		return 50, nil
	case limit < 1 || limit > 500:
		return 0, fmt.Errorf("limit: %w: %d is not within 1 … 500", jobs.ErrInvalid, limit)
	}
	return limit, nil
}

// cursor names the last row of a page. Its parts must not hold a line break.
func cursor(list string, parts ...string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(list + "\n" + strings.Join(parts, "\n")))
}

// readCursor is the inverse; nil for the first page, jobs.ErrInvalid for what cursor did not make.
func readCursor(text, list string, parts int) ([]string, error) {
	if text == "" {
		return nil, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(text)
	read := strings.Split(string(b), "\n")
	if err != nil || read[0] != list || len(read) != parts+1 {
		return nil, fmt.Errorf("cursor: %w: %.40q is not a cursor of this list", jobs.ErrInvalid, text)
	}
	return read[1:], nil
}

// where collects conditions.
type where struct {
	conditions []string
	args       []any
}

func (w *where) and(condition string, args ...any) {
	w.conditions = append(w.conditions, condition)
	w.args = append(w.args, args...)
}

func (w *where) text() string {
	if len(w.conditions) == 0 {
		return ""
	}
	return ` WHERE ` + strings.Join(w.conditions, ` AND `)
}
