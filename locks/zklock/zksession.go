package zklock

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockstep-scheduler/lockstep/internal/calls"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// zkSession is one ZooKeeper session and the only connection that may ever use it.
//
//	new ──▶ ready: the first StateHasSession
//	ready ──▶ over: expired at the server, closed, or not renewed for its TTL
//	over ──▶ done: the connection is gone
type zkSession struct {
	dialer *dialer
	conn   *zk.Conn // set before keep runs

	ready     chan struct{}      // closed at the first StateHasSession
	setReady  func()             // closes ready
	changed   chan struct{}      // says that the connection's state may have changed
	over      chan struct{}      // closed once no lease may be trusted any more
	end       func()             // closes over
	confirmed atomic.Bool        // a server reported that nothing is held any more
	quit      chan struct{}      // closed by Close
	leave     func()             // closes quit
	renewals  chan time.Duration // how long the session may now go without a renewal
	done      chan struct{}      // closed when the connection is gone
	closed    error              // what became of it; to be read after done
}

func newZKSession(timeout time.Duration, settings *tls.Config) *zkSession {
	t := &zkSession{
		dialer: newDialer(timeout, settings), ready: make(chan struct{}), over: make(chan struct{}), quit: make(chan struct{}),
		renewals: make(chan time.Duration), done: make(chan struct{}), changed: make(chan struct{}, 1),
	}
	t.setReady = sync.OnceFunc(func() { close(t.ready) })
	t.end = sync.OnceFunc(func() { t.dialer.refuse(); close(t.over) })
	t.leave = sync.OnceFunc(func() { close(t.quit) })
	return t
}

// connect starts the library's connection and the goroutine that ends it.
func (t *zkSession) connect(servers []string, timeout time.Duration) error {
	conn, events, err := zk.Connect(servers, timeout, zk.WithHostProvider(t.dialer.hosts), zk.WithDialer(t.dialer.dial),
		zk.WithEventCallback(t.event), zk.WithLogger(t.dialer), zk.WithLogInfo(false))
	if err != nil {
		close(t.done)
		return fmt.Errorf("%w: %w", driver.ErrUnreachable, err)
	}
	t.conn = conn
	go t.keep(events)
	return nil
}

// event runs on the library's own goroutine, before it dials again.
func (t *zkSession) event(e zk.Event) {
	switch e.State {
	case zk.StateHasSession:
		t.setReady()
	case zk.StateExpired:
		t.confirmed.Store(true)
		t.end()
	case zk.StateAuthFailed:
		t.end()
	}
	select {
	case t.changed <- struct{}{}:
	default:
	}
}

// established waits for the session. Nothing was sent if all addresses refuse.
func (t *zkSession) established(ctx context.Context) error {
	select {
	case <-t.ready:
		return nil
	case <-t.dialer.hopeless:
		_, cause := t.dialer.state()
		return fmt.Errorf("%w: %w", driver.ErrUnreachable, cause)
	case <-ctx.Done():
		if _, cause := t.dialer.state(); cause != nil {
			return fmt.Errorf("%w: %w", calls.Ended(ctx), cause)
		}
		return calls.Ended(ctx)
	}
}

// reconnects is how long a lost connection may take to be made again: between two rounds of its addresses, and before the first
// where there is one alone, the library pauses for a second.
const reconnects = 1500 * time.Millisecond

// keep ends the session when it is over, left, or not renewed for too long, and then the connection.
func (t *zkSession) keep(events <-chan zk.Event) {
	defer close(t.done)
	idle := time.NewTimer(openLimit)
	defer idle.Stop()
	for running := true; running; {
		select {
		case d := <-t.renewals:
			idle.Reset(d)
		case <-idle.C:
			t.end()
		case <-t.over:
			running = false
		case <-t.quit:
			running = false
		}
	}
	t.connected(reconnects)
	gone := t.isOver()
	t.conn.Close() // waits for the answer, at most a second
	switch {
	case t.dialer.closed():
		t.confirmed.Store(true)
	case !gone:
		t.closed = errors.New("no connection: the session ends by itself")
	}
	t.end()
	t.dialer.close()
	for range events { // closed by the library's last goroutine
	}
}

// connected waits a moment for a connection that was just lost: nothing could be freed without.
func (t *zkSession) connected(patience time.Duration) {
	enough := time.After(patience)
	for t.conn.State() != zk.StateHasSession {
		select {
		case <-t.changed:
		case <-t.over:
			return
		case <-enough:
			return
		}
	}
}

// renewed says that the session was renewed by a request sent at asked.
func (t *zkSession) renewed(asked time.Time, ttl time.Duration) {
	select {
	case t.renewals <- ttl - time.Since(asked):
	case <-t.over:
	case <-t.quit:
	}
}

// close ends the session and waits until the connection is gone.
func (t *zkSession) close(ctx context.Context) error {
	t.leave()
	select {
	case <-t.done:
		return t.closed
	case <-ctx.Done():
		return calls.Ended(ctx)
	}
}

func (t *zkSession) isOver() bool {
	select {
	case <-t.over:
		return true
	default:
		return false
	}
}

// addresses names the servers, for messages.
func addresses(servers []string) string { return strings.Join(servers, ",") }
