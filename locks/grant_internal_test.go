package locks

import "testing"

// A lease may end between its grant and the moment in which its waiter gets it: the next waiter must not wait for its end, which was told.
func TestGrantOfALeaseThatHasEnded(t *testing.T) {
	l := &Locker{opt: Options{Observer: unobserved{}}, fifo: true, queues: map[string]*waitQueue{}, holds: map[string]*hold{}, inFlight: map[string]int{}}
	first, second := newWaiter(Request{Key: "user/a"}), newWaiter(Request{Key: "user/a"})
	l.enter(first)
	q := l.enter(second)
	lease := l.share(l.obtain(&session{}, first.request, 1), first.request)
	lease.released = ErrReleased
	l.forget(lease.hold)
	l.grant(q, lease)
	if first.lease != lease {
		t.Error("the first waiter has no lease")
	}
	if !q.due(second) {
		t.Error("the second one waits for the end of a lease that has ended")
	}
}
