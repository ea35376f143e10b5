package sim

import (
	"sync"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
)

// life is the state of a process: running, frozen or killed.
type life struct {
	mu     sync.Mutex
	thaw   chan struct{} // not nil while it is frozen
	dead   chan struct{} // closed when it is killed
	thawed time.Time     // the end of the last freeze; zero: there was none
	armed  *trap         // nil: there is none
}

// trap strikes a process when it has claimed or decided something, and before it gets the answer.
type trap struct {
	on     func([]ledger.Started) bool // whether these tasks, which it has just claimed, are what it waits for
	strike func([]ledger.Started)
}

func newLife() *life { return &life{dead: make(chan struct{})} }

func (l *life) freeze() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.thaw == nil {
		l.thaw = make(chan struct{})
	}
}

// arm sets a trap, which strikes once; nil removes it. It reports whether one was still set.
func (l *life) arm(t *trap) (unsprung bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	unsprung = l.armed != nil
	l.armed = t
	return unsprung
}

func (l *life) trip(tasks []ledger.Started) {
	l.mu.Lock()
	t := l.armed
	if len(tasks) == 0 || t == nil || !t.on(tasks) {
		l.mu.Unlock()
		return
	}
	l.armed = nil
	l.mu.Unlock()
	t.strike(tasks)
}

func (l *life) melt() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.thaw != nil {
		close(l.thaw)
		l.thaw, l.thawed = nil, time.Now()
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
	return l.thaw != nil || !l.thawed.Before(t) && !l.thawed.IsZero()
}

// goOn waits while the process is frozen; false if it is killed.
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
