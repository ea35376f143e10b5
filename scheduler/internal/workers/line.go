package workers

import (
	"context"
	"sync"
)

// line is where the claims of workers wait for tasks of one pool. One of them at a time asks the store. All of them hear of arrivals, but
// of those with equal kinds the rest do not ask once one has found that nothing is left since.
type line struct {
	turn chan struct{} // to ask the store

	mu      sync.Mutex
	number  int            // of arrivals
	changed chan struct{}  // closed with the next one
	dry     map[string]int // by kinds: nothing is left of the arrivals up to this one
}

func newLine() *line {
	return &line{turn: make(chan struct{}, 1), changed: make(chan struct{}), dry: map[string]int{}}
}

// arrived says that there may be tasks to claim.
func (l *line) arrived() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.number++
	close(l.changed)
	l.changed = make(chan struct{})
}

// look returns the number of the last arrival, what is closed with the next one, and whether something may be left for these kinds.
func (l *line) look(kinds string) (number int, next <-chan struct{}, left bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	dry, known := l.dry[kinds]
	return l.number, l.changed, !known || dry < l.number
}

// nothingLeft says that a claim with these kinds, which began after that arrival, has left nothing.
func (l *line) nothingLeft(kinds string, number int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.dry) > 1000 { // sets of kinds that workers made up
		clear(l.dry)
	}
	l.dry[kinds] = max(l.dry[kinds], number)
}

// take waits for the turn; false once ctx is done.
func (l *line) take(ctx context.Context) bool {
	select {
	case l.turn <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (l *line) give() { <-l.turn }

// Drained ends the waits of claims, once the replica is draining.
func (w *Workers) Drained() {
	for _, l := range w.lines {
		l.arrived()
	}
}

// Arrived says that there may be tasks of a pool to claim.
func (w *Workers) Arrived(pool string) {
	if l := w.lines[pool]; l != nil {
		l.arrived()
	}
}
