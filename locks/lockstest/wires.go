package lockstest

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
)

// Wires are the connections of one client to its server. A harness that makes clients with Dial can disconnect each of them.
type Wires struct {
	TLS *tls.Config // nil: none

	mu    sync.Mutex
	off   bool
	conns []net.Conn
}

// Dial connects, unless the wires are cut.
func (w *Wires) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.off {
		return nil, &net.OpError{Op: "dial", Net: network, Err: errors.New("cut off by the test")}
	}
	dial := new(net.Dialer).DialContext
	if w.TLS != nil {
		dial = (&tls.Dialer{Config: w.TLS}).DialContext
	}
	conn, err := dial(ctx, network, addr)
	if err == nil {
		w.conns = append(w.conns, conn)
	}
	return conn, err
}

// Cut closes all connections, and refuses new ones until Mend.
func (w *Wires) Cut() { w.set(true) }

// Mend ends what Cut began.
func (w *Wires) Mend() { w.set(false) }

func (w *Wires) set(off bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.off = off
	for _, conn := range w.conns {
		_ = conn.Close()
	}
	w.conns = nil
}
