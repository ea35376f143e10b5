package store

import (
	"context"
	"time"
)

// Now is the database's time.
func (s *Store) Now(ctx context.Context) (now time.Time, err error) {
	err = s.read(ctx, "now", func(t *tx) error {
		now, err = t.now()
		return err
	})
	return now, err
}
