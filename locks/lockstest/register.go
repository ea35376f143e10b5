package lockstest

import (
	"sync"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// fenced is a register that refuses older tokens, as a store does.
type fenced struct {
	careless bool

	mu    sync.Mutex
	token driver.Token
	value int
}

func (f *fenced) write(token driver.Token, value int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if token < f.token && !f.careless {
		return false
	}
	f.token, f.value = token, value
	return true
}

func (f *fenced) read() (driver.Token, int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.token, f.value
}
