package work

import "sync"

// gate counts attempts, and calls that are about to make some; once closed, it admits no more.
type gate struct {
	mu     sync.Mutex
	inside int
	empty  chan struct{} // not nil once the gate is closed; closed when nothing is inside
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

// close admits no more; the channel that it returns is closed when nothing is inside.
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
