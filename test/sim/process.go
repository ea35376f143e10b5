package sim

import (
	"sync"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
)

// process is the state of a process: running, frozen or killed.
type process struct {
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

func newProcess() *process { return &process{dead: make(chan struct{})} }

func (p *process) freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.thaw == nil {
		p.thaw = make(chan struct{})
	}
}

// arm sets a trap, which strikes once; nil removes it. It reports whether one was still set.
func (p *process) arm(t *trap) (unsprung bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	unsprung = p.armed != nil
	p.armed = t
	return unsprung
}

func (p *process) trip(tasks []ledger.Started) {
	p.mu.Lock()
	t := p.armed
	if len(tasks) == 0 || t == nil || !t.on(tasks) {
		p.mu.Unlock()
		return
	}
	p.armed = nil
	p.mu.Unlock()
	t.strike(tasks)
}

func (p *process) unfreeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.thaw != nil {
		close(p.thaw)
		p.thaw, p.thawed = nil, time.Now()
	}
}

func (p *process) die() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.isDead() {
		close(p.dead)
	}
}

func (p *process) isDead() bool {
	select {
	case <-p.dead:
		return true
	default:
		return false
	}
}

func (p *process) isFrozen() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.thaw != nil
}

// frozenSince reports whether it was frozen at some time since a moment.
func (p *process) frozenSince(t time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.thaw != nil || !p.thawed.Before(t) && !p.thawed.IsZero()
}

// goOn waits while the process is frozen; false if it is killed.
func (p *process) goOn() bool {
	p.mu.Lock()
	thaw := p.thaw
	p.mu.Unlock()
	if thaw != nil {
		select {
		case <-thaw:
		case <-p.dead:
		}
	}
	return !p.isDead()
}
