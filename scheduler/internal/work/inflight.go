package work

import "sync"

// inflight counts attempts, and calls that are about to make some; once it drains, it begins no more.
type inflight struct {
	mu      sync.Mutex
	n       int
	drained chan struct{} // not nil once it drains; closed when n is 0
}

func (f *inflight) begin() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.drained != nil {
		return false
	}
	f.n++
	return true
}

func (f *inflight) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n--
	f.check()
}

// drain begins no more; the channel that it returns is closed when all have ended.
func (f *inflight) drain() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.drained = make(chan struct{})
	f.check()
	return f.drained
}

func (f *inflight) check() {
	if f.drained != nil && f.n == 0 {
		close(f.drained)
	}
}
