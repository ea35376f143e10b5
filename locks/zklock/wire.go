package zklock

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

var errShut = errors.New("the session is over")

// gate is how the library reaches the servers. It is shut for good when the session is over: the
// library would begin another session by itself, with requests of the old one in its queue.
type gate struct {
	hosts func() int // how many addresses the library tries in turn

	mu       sync.Mutex
	shut     bool
	wire     *wire
	timeout  time.Duration // of the session: what was asked for, then what was agreed on
	agreed   bool
	failures int
	cause    error         // of the last failure
	hopeless chan struct{} // closed when every address has refused, and none has ever answered
}

func newGate(timeout time.Duration) *gate {
	return &gate{timeout: timeout, hopeless: make(chan struct{})}
}

// dial is the library's Dialer.
func (g *gate) dial(network, address string, timeout time.Duration) (net.Conn, error) {
	g.mu.Lock()
	shut := g.shut
	g.mu.Unlock()
	if shut {
		return nil, errShut
	}
	c, err := net.DialTimeout(network, address, timeout)
	g.mu.Lock()
	defer g.mu.Unlock()
	if err != nil {
		g.cause = err
		if g.failures++; g.failures == g.hosts() && !g.agreed {
			close(g.hopeless)
		}
		return nil, err
	}
	if g.shut {
		_ = c.Close()
		return nil, errShut
	}
	g.failures = -1 << 31 // somebody listens
	g.wire = &wire{Conn: c, gate: g}
	return g.wire, nil
}

// Printf is the library's log. It prints nothing, and keeps the last line to explain a failure.
func (g *gate) Printf(format string, args ...any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cause = fmt.Errorf(format, args...)
}

// refuse lets nobody dial any more; close also cuts the connection.
func (g *gate) refuse() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = true
}

func (g *gate) close() {
	g.refuse()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.wire != nil {
		_ = g.wire.Close()
	}
}

func (g *gate) agree(millis uint32) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if millis > 0 { // 0 says that the session has expired
		g.timeout, g.agreed = time.Duration(millis)*time.Millisecond, true
	}
}

func (g *gate) state() (timeout time.Duration, cause error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.timeout, g.cause
}

// wire is one connection to a server.
type wire struct {
	net.Conn
	gate *gate
	head []byte // of the first answer
}

// Read also learns the agreed session timeout, which the library keeps to itself: the first answer
// is its length, the protocol's version and the timeout in ms, each of four bytes.
func (w *wire) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	if lack := 12 - len(w.head); lack > 0 && n > 0 {
		w.head = append(w.head, p[:min(n, lack)]...)
		if len(w.head) == 12 {
			w.gate.agree(binary.BigEndian.Uint32(w.head[8:]))
		}
	}
	return n, err
}

// The library waits for the first answer ten times longer than for all others, and a session is
// over by then.
func (w *wire) SetReadDeadline(t time.Time) error  { return w.Conn.SetReadDeadline(w.cap(t)) }
func (w *wire) SetWriteDeadline(t time.Time) error { return w.Conn.SetWriteDeadline(w.cap(t)) }

func (w *wire) cap(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	timeout, _ := w.gate.state()
	if latest := time.Now().Add(timeout * 2 / 3); t.After(latest) {
		return latest
	}
	return t
}
