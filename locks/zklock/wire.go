package zklock

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/handshake"
)

var errShut = errors.New("the session is over")

// gate is how the library reaches the servers. It is shut for good when the session is over: the
// library would begin another session by itself, with requests of the old one in its queue.
type gate struct {
	hosts *hosts      // the addresses that the library tries in turn
	tls   *tls.Config // nil: none

	mu       sync.Mutex
	shut     bool
	wire     *wire
	timeout  time.Duration // of the session: what was asked for, then what was agreed on
	agreed   bool
	failures int
	cause    error         // of the last failure
	hopeless chan struct{} // closed when every address has refused, and none has ever answered
}

func newGate(timeout time.Duration, settings *tls.Config) *gate {
	return &gate{timeout: timeout, tls: settings, hopeless: make(chan struct{})}
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
	if err == nil && g.tls != nil {
		c, err = g.encrypt(c, address, timeout)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if err != nil {
		g.cause = err
		if g.failures++; g.failures == g.hosts.Len() {
			close(g.hopeless)
		}
		return nil, err
	}
	if g.shut {
		_ = c.Close()
		return nil, errShut
	}
	g.failures = -1 << 31 // an address answered
	g.wire = &wire{Conn: c, gate: g}
	return g.wire, nil
}

// encrypt makes the TLS handshake, which takes a new JVM longer than the library's limit for dialling.
func (g *gate) encrypt(c net.Conn, address string, timeout time.Duration) (net.Conn, error) {
	settings := g.tls
	if settings.ServerName == "" {
		settings = settings.Clone()
		settings.ServerName = g.hosts.name(address)
	}
	agreed, _ := g.state()
	ctx, cancel := context.WithTimeout(context.Background(), max(timeout, agreed/2))
	defer cancel()
	encrypted := tls.Client(c, settings)
	if err := encrypted.HandshakeContext(ctx); err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("%s: %w", address, handshake.Explain(err, true))
	}
	return encrypted, nil
}

// Printf is the library's log. It prints nothing, and keeps the last line to explain a failure.
func (g *gate) Printf(format string, args ...any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, arg := range args {
		switch err, ok := arg.(error); {
		case !ok || g.agreed:
		case errors.Is(err, g.cause): // dial said it
			return
		default: // without the library's words: it calls the first exchange "authentication"
			g.cause = handshake.Explain(err, g.tls != nil)
			return
		}
	}
	g.cause = fmt.Errorf(format, args...)
}

// refuse fails every later dial; close also closes the connection.
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

// closed reports whether the last connection brought the server's answer to the request that ends the session. A
// connection that broke instead looks the same to the library.
func (g *gate) closed() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.wire != nil && g.wire.closed
}

// wire is one connection to a server.
type wire struct {
	net.Conn
	gate   *gate
	head   []byte // of the first answer
	frames frames // what was read

	closing []byte // the number of the request that ends the session; guarded by the gate's mu
	closed  bool   // it was answered; guarded by the gate's mu
}

// ending is the operation that ends a session. The library writes a request at once: its length, its number and its
// operation, each of four bytes, come first.
var ending = binary.BigEndian.AppendUint32(nil, 1<<32-11)

func (w *wire) Write(p []byte) (int, error) {
	if len(p) >= 12 && bytes.Equal(p[8:12], ending) {
		w.gate.mu.Lock()
		w.closing = bytes.Clone(p[4:8])
		w.gate.mu.Unlock()
	}
	return w.Conn.Write(p)
}

// Read also learns the agreed session timeout, which the library keeps to itself: the first answer
// is its length, the protocol's version and the timeout in ms, each of four bytes. And it looks for the last answer.
func (w *wire) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	if lack := 12 - len(w.head); lack > 0 && n > 0 {
		w.head = append(w.head, p[:min(n, lack)]...)
		if len(w.head) == 12 {
			w.gate.agree(binary.BigEndian.Uint32(w.head[8:]))
		}
	}
	w.frames.read(p[:n], func(number []byte) {
		w.gate.mu.Lock()
		defer w.gate.mu.Unlock()
		w.closed = w.closed || bytes.Equal(number, w.closing)
	})
	return n, err
}

// frames takes answers apart: each is its length, then as many bytes, the first four of which are the number of its request.
type frames struct {
	head []byte // length and number, as far as they have come
	rest int    // of the answer, to be passed over
}

func (f *frames) read(p []byte, each func(number []byte)) {
	for len(p) > 0 {
		n := min(f.rest, len(p))
		p, f.rest = p[n:], f.rest-n
		n = min(8-len(f.head), len(p))
		f.head, p = append(f.head, p[:n]...), p[n:]
		if len(f.head) == 8 {
			each(f.head[4:])
			f.rest, f.head = max(int(binary.BigEndian.Uint32(f.head))-4, 0), f.head[:0]
		}
	}
}

// The library waits for the first answer ten times longer than for all others, and a session is
// over by then.
func (w *wire) SetReadDeadline(t time.Time) error  { return w.Conn.SetReadDeadline(w.cap(t)) }
func (w *wire) SetWriteDeadline(t time.Time) error { return w.Conn.SetWriteDeadline(w.cap(t)) }

// cap leaves a zero t, which is no deadline, as it is.
func (w *wire) cap(t time.Time) time.Time {
	timeout, _ := w.gate.state()
	if latest := time.Now().Add(timeout * 2 / 3); t.After(latest) {
		return latest
	}
	return t
}
