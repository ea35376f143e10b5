package scheduler

import "sync"

// gate counts attempts, and what is about to make some; it lets nobody in once it is closed.
type gate struct {
	mu     sync.Mutex
	inside int
	empty  chan struct{} // not nil once the gate is closed; closed when the last one has left
}

func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.empty != nil {
		return false
	}
	g.inside++
	return true
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	g.check()
}

// close lets nobody in any more; the answer is closed when nobody is inside.
func (g *gate) close() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.empty = make(chan struct{})
	g.check()
	return g.empty
}

func (g *gate) check() {
	if g.empty != nil && g.inside == 0 {
		close(g.empty)
	}
}
