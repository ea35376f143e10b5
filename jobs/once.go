package jobs

import (
	"errors"
	"fmt"
	"time"
)

// parseAt reads the moment of "@at". It may be past: then it is over, which is no error, since a file
// is read again after it.
func parseAt(text string) (time.Time, error) {
	at, err := time.Parse(time.RFC3339, text)
	switch {
	case err != nil:
		return at, fmt.Errorf("@at: %q is not a time with its offset from UTC; write it as in @at 2026-12-24T18:00:00+01:00, or with Z for UTC", text)
	case at.Nanosecond() != 0:
		return at, fmt.Errorf("@at: %s is not a whole second", text)
	}
	if at = at.UTC(); !at.After(earliest) || !at.Before(latest) {
		return at, errors.New("@at: the year must be from 1 to 9999")
	}
	return at, nil
}
