package store

import (
	"slices"
	"sync"
)

// listeners are the replicas of this process that are notified of what the Store has enqueued.
type listeners struct {
	mu  sync.Mutex
	all []*func(pools ...string)
}

// Listen registers enqueued, which is called with the pools of the tasks that this Store has enqueued or retried, until stop was
// called.
func (s replica) Listen(enqueued func(pools ...string)) (stop func()) {
	heard := &s.listening
	heard.mu.Lock()
	defer heard.mu.Unlock()
	heard.all = append(heard.all, &enqueued)
	return func() {
		heard.mu.Lock()
		defer heard.mu.Unlock()
		heard.all = slices.DeleteFunc(heard.all, func(each *func(pools ...string)) bool { return each == &enqueued })
	}
}

// tell notifies the listeners of new tasks in the pools.
func (l *listeners) tell(pools ...string) {
	if len(pools) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, each := range l.all {
		(*each)(pools...)
	}
}
