package workers

import (
	"slices"
	"sync"
	"sync/atomic"
)

// line is where the claims of workers wait for tasks of one pool. One of them at a time asks the store. All of them hear of arrivals, but
// of those with equal kinds the rest do not ask once one has found that nothing is left since.
type line struct {
	limited atomic.Bool // the last claim said that the pool has limits

	mu      sync.Mutex
	queue   []chan struct{} // the first one has the turn to ask the store
	number  int             // of arrivals
	changed chan struct{}   // closed with the next one
	dry     map[string]int  // by kinds: nothing is left of the arrivals up to this one
}

func newLine() *line {
	return &line{changed: make(chan struct{}), dry: map[string]int{}}
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

// join takes a place in the queue for the turn to ask the store. The place is closed when the turn has come; call leave at any time.
func (l *line) join() (place chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	place = make(chan struct{})
	if l.queue = append(l.queue, place); len(l.queue) == 1 {
		close(place)
	}
	return place
}

// leave gives up a place, or the turn, which the next one has then.
func (l *line) leave(place chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.queue, place)
	if l.queue = slices.Delete(l.queue, i, i+1); i == 0 && len(l.queue) > 0 {
		close(l.queue[0])
	}
}

// lineOf is the line of a pool with something for workers.
func (w *Workers) lineOf(pool string) *line {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lines[pool] == nil {
		w.lines[pool] = newLine()
	}
	return w.lines[pool]
}

// known is the line of a pool if a worker has claimed tasks of it; else nil.
func (w *Workers) known(pool string) *line {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lines[pool]
}

// Drained ends the waits of claims, once the replica is draining.
func (w *Workers) Drained() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range w.lines {
		l.arrived()
	}
}

// Arrived says that there may be tasks of a pool to claim.
func (w *Workers) Arrived(pool string) {
	if l := w.known(pool); l != nil {
		l.arrived()
	}
}
