// Package proxy is one edge of a network that a test can break: a TCP proxy between a client and a server on
// loopback. It holds bytes back as a partition does, loses them, delays them, limits their rate, or resets
// connections; each direction for itself, and while connections are open.
package proxy

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// Fault is what an edge does to bytes. The zero Fault lets them pass.
type Fault struct {
	Up    Lane // from the client to the server
	Down  Lane // from the server to the client
	Reset bool // connections are reset (RST), the open ones and all that come
}

// Lane is what happens to the bytes of one direction. The first of Hold and Lose counts.
type Lane struct {
	// Hold keeps bytes back, as a partition does: they arrive once it has healed. Both lanes held are a black
	// hole: connections seem to be open, without answers.
	Hold bool
	// Lose discards bytes. A stream with a gap is useless: when the fault ends, connections that lost something
	// are reset.
	Lose bool

	Delay          time.Duration // before a byte arrives
	Jitter         time.Duration // up to this much more; order stays
	BytesPerSecond int           // 0: no limit
}

// Common faults.
var (
	BlackHole   = Fault{Up: Lane{Hold: true}, Down: Lane{Hold: true}}
	Resets      = Fault{Reset: true}
	LoseReplies = Fault{Down: Lane{Lose: true}} // the server acts, and the client gets no answer
	OneWay      = Fault{Down: Lane{Hold: true}} // the server gets requests, and its answers do not arrive
)

// Slow delays both directions.
func Slow(delay, jitter time.Duration) Fault {
	l := Lane{Delay: delay, Jitter: jitter}
	return Fault{Up: l, Down: l}
}

// loses reports whether bytes are lost, of one direction at least.
func (f Fault) loses() bool { return f.Up.Lose || f.Down.Lose }

// Counts is what an edge did, so that a test can see whether its fault had an effect.
type Counts struct {
	Accepted   int   // connections
	Up, Down   int64 // bytes that arrived
	Lost, Held int64 // bytes that were discarded, or had to wait
	Reset      int   // connections
}

// Add is what two edges did together.
func (c Counts) Add(o Counts) Counts {
	c.Accepted += o.Accepted
	c.Up += o.Up
	c.Down += o.Down
	c.Lost += o.Lost
	c.Held += o.Held
	c.Reset += o.Reset
	return c
}

// Proxy is one edge. Its methods may be called at any time.
type Proxy struct {
	listener net.Listener
	target   string
	mysql    bool // commands are distinguished

	mu      sync.Mutex
	changed chan struct{} // closed when the fault changes
	fault   Fault
	judge   func(Command) Verdict
	tap     func(conn int, up bool, bytes []byte)
	counts  Counts
	pairs   map[*pair]bool
	closed  bool

	working sync.WaitGroup
}

// Listen opens an edge to target (host:port) on a free loopback port.
func Listen(target string) (*Proxy, error) { return listen(target, false) }

func listen(target string, mysql bool) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("proxy to %s: %w", target, err)
	}
	p := &Proxy{listener: l, target: target, mysql: mysql, changed: make(chan struct{}), pairs: map[*pair]bool{}}
	p.working.Go(p.accept)
	return p, nil
}

// Addr is where clients connect to.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Set makes f the edge's fault, also for what is open; the zero Fault heals it.
func (p *Proxy) Set(f Fault) {
	p.mu.Lock()
	p.fault = f
	close(p.changed)
	p.changed = make(chan struct{})
	var broken []*pair
	for one := range p.pairs {
		if f.Reset || one.gap && !f.loses() {
			broken = append(broken, one)
		}
	}
	p.counts.Reset += len(broken)
	p.mu.Unlock()
	for _, one := range broken {
		one.reset()
	}
}

// Take makes a connection that another listener accepted one of this edge.
func (p *Proxy) Take(client *net.TCPConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		_ = client.Close()
		return
	}
	p.working.Go(func() { p.serve(client) })
}

// Tap has f see what arrives, before it is passed on; nil ends that. f is called from many goroutines,
// and while it works what it sees waits.
func (p *Proxy) Tap(f func(conn int, up bool, bytes []byte)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tap = f
}

func (p *Proxy) tapped() func(conn int, up bool, bytes []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tap
}

// Counts is what happened until now.
func (p *Proxy) Counts() Counts {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counts
}

// Close ends the edge and everything that goes over it, and waits for that.
func (p *Proxy) Close() error {
	p.mu.Lock()
	again := p.closed
	p.closed = true
	var open []*pair
	for one := range p.pairs {
		open = append(open, one)
	}
	p.mu.Unlock()
	if again {
		return nil
	}
	err := p.listener.Close()
	for _, one := range open {
		one.end()
	}
	p.working.Wait()
	return err
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(10 * time.Millisecond) // out of descriptors, most likely
			continue
		}
		p.working.Go(func() { p.serve(client.(*net.TCPConn)) })
	}
}

// serve joins a client with the server until one of them is gone.
func (p *Proxy) serve(client *net.TCPConn) {
	one := &pair{p: p, client: client, over: make(chan struct{})}
	if !p.enter(one) {
		one.reset()
		return
	}
	defer p.leave(one)
	conn, err := net.DialTimeout("tcp", p.target, 5*time.Second)
	if err != nil {
		one.reset() // as the server itself would refuse
		return
	}
	if !one.reach(conn.(*net.TCPConn)) {
		return
	}
	var lanes sync.WaitGroup
	lanes.Go(func() { one.pump(client, one.server, up) })
	lanes.Go(func() { one.pump(one.server, client, down) })
	lanes.Wait()
	one.end()
}

// enter counts a new connection; false if it must be reset.
func (p *Proxy) enter(one *pair) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts.Accepted++
	if p.fault.Reset || p.closed {
		p.counts.Reset++
		return false
	}
	p.pairs[one] = true
	one.number = p.counts.Accepted
	return true
}

func (p *Proxy) leave(one *pair) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.pairs, one)
}

// lane is the fault of one direction as it is now, and what is closed when it changes.
func (p *Proxy) lane(way direction) (Lane, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if way == up {
		return p.fault.Up, p.changed
	}
	return p.fault.Down, p.changed
}

func (l Lane) wait() time.Duration {
	if l.Jitter <= 0 {
		return l.Delay
	}
	return l.Delay + rand.N(l.Jitter) //nolint:gosec // a delay, not a secret
}
