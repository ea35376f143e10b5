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

var errShut = errors.New("the session has ended")

// dialer is how the library reaches the servers. It is shut for good when the session is over: the
// library would begin another session by itself, with requests of the old one in its queue.
type dialer struct {
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

func newDialer(timeout time.Duration, settings *tls.Config) *dialer {
	return &dialer{timeout: timeout, tls: settings, hosts: newHosts(), hopeless: make(chan struct{})}
}

// dial is the library's Dialer.
func (d *dialer) dial(network, address string, timeout time.Duration) (net.Conn, error) {
	d.mu.Lock()
	shut := d.shut
	d.mu.Unlock()
	if shut {
		return nil, errShut
	}
	c, err := net.DialTimeout(network, address, timeout)
	if err == nil && d.tls != nil {
		c, err = d.encrypt(c, address, timeout)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil {
		d.cause = err
		if d.failures++; d.failures == d.hosts.Len() {
			close(d.hopeless)
		}
		return nil, err
	}
	if d.shut {
		_ = c.Close()
		return nil, errShut
	}
	d.failures = -1 << 31 // an address answered
	d.wire = &wire{Conn: c, dialer: d}
	return d.wire, nil
}

// encrypt makes the TLS handshake, which takes a new JVM longer than the library's limit for dialling.
func (d *dialer) encrypt(c net.Conn, address string, timeout time.Duration) (net.Conn, error) {
	settings := d.tls
	if settings.ServerName == "" {
		settings = settings.Clone()
		settings.ServerName = d.hosts.name(address)
	}
	agreed, _ := d.state()
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
func (d *dialer) Printf(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, arg := range args {
		switch err, ok := arg.(error); {
		case !ok || d.agreed:
		case errors.Is(err, d.cause): // dial said it
			return
		default: // without the library's words: it calls the first exchange "authentication"
			d.cause = handshake.Explain(err, d.tls != nil)
			return
		}
	}
	d.cause = fmt.Errorf(format, args...)
}

// refuse fails every later dial.
func (d *dialer) refuse() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.shut = true
}

// close closes the connection.
func (d *dialer) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.wire != nil {
		_ = d.wire.Close()
	}
}

func (d *dialer) agree(millis uint32) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if millis > 0 { // 0 says that the session has expired
		d.timeout, d.agreed = time.Duration(millis)*time.Millisecond, true
	}
}

func (d *dialer) state() (timeout time.Duration, cause error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.timeout, d.cause
}

// closed reports whether the last connection brought the server's answer to the request that ends the session. A
// connection that broke instead looks the same to the library.
func (d *dialer) closed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.wire != nil && d.wire.closed
}

// wire is one connection to a server.
type wire struct {
	net.Conn
	dialer *dialer
	head   []byte // of the first answer
	frames frames // what was read

	closing []byte // the number of the request that ends the session; guarded by the dialer's mu
	closed  bool   // it was answered; guarded by the dialer's mu
}

// ending is the operation that ends a session. The library writes a request at once: its length, its number and its
// operation, each of four bytes, come first.
var ending = binary.BigEndian.AppendUint32(nil, 1<<32-11)

func (w *wire) Write(p []byte) (int, error) {
	if len(p) >= 12 && bytes.Equal(p[8:12], ending) {
		w.dialer.mu.Lock()
		w.closing = bytes.Clone(p[4:8])
		w.dialer.mu.Unlock()
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
			w.dialer.agree(binary.BigEndian.Uint32(w.head[8:]))
		}
	}
	w.frames.read(p[:n], func(number []byte) {
		w.dialer.mu.Lock()
		defer w.dialer.mu.Unlock()
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
	timeout, _ := w.dialer.state()
	if latest := time.Now().Add(timeout * 2 / 3); t.After(latest) {
		return latest
	}
	return t
}
