package sim

import (
	"sync"
	"time"
)

// life is whether a process runs. It freezes and dies as a whole.
type life struct {
	mu     sync.Mutex
	thaw   chan struct{} // not nil while it is frozen
	dead   chan struct{} // closed when it dies
	frozen time.Time     // the end of the last freeze; zero: there was none
	armed  func()        // freezes it as soon as it has made something its own; nil: nothing does
}

func newLife() *life { return &life{dead: make(chan struct{})} }

func (l *life) freeze() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.thaw == nil {
		l.thaw = make(chan struct{})
	}
}

// arm has f called when the process has claimed or decided something, and before it hears of that.
func (l *life) arm(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.armed = f
}

func (l *life) trip() {
	l.mu.Lock()
	f := l.armed
	l.armed = nil
	l.mu.Unlock()
	if f != nil {
		f()
	}
}

func (l *life) melt() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.thaw != nil {
		close(l.thaw)
		l.thaw, l.frozen = nil, time.Now()
	}
}

func (l *life) die() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.isDead() {
		close(l.dead)
	}
}

func (l *life) isDead() bool {
	select {
	case <-l.dead:
		return true
	default:
		return false
	}
}

func (l *life) isFrozen() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.thaw != nil
}

// frozenSince reports whether it was frozen at some time since a moment.
func (l *life) frozenSince(t time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.thaw != nil || !l.frozen.Before(t) && !l.frozen.IsZero()
}

// goOn waits while the process is frozen; false if it is dead.
func (l *life) goOn() bool {
	l.mu.Lock()
	thaw := l.thaw
	l.mu.Unlock()
	if thaw != nil {
		select {
		case <-thaw:
		case <-l.dead:
		}
	}
	return !l.isDead()
}
