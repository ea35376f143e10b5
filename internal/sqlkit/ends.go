package sqlkit

import (
	"context"
	"math/rand/v2"
	"time"
)

// Ends tells a writer of a SQLite file that waits for the write lock that another one of this process has committed: the next look for the lock is at
// once, and not after a nap, which is a quarter of a short transaction. All writers of the file in this process share it.
type Ends chan struct{}

// NewEnds makes those of a file.
func NewEnds() Ends { return make(Ends, 1) }

func (e Ends) tell() {
	select {
	case e <- struct{}{}:
	default:
	}
}

// wait waits for an end, or for a nap.
func (e Ends) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-e:
	case <-time.After(rand.N(turnNap)):
	}
	return nil
}
