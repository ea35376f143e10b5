package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"

	"github.com/lockstep-scheduler/lockstep/config"
)

// link is a port of this machine that passes a client's connections on to a server, until it is cut: then nothing arrives
// any more, as when the network is cut.
type link struct {
	listener net.Listener
	isCut    atomic.Bool
	work     sync.WaitGroup

	mu    sync.Mutex
	conns []net.Conn
}

// openLink puts a link in the place of the servers of ZooKeeper that c names: to the first that can be reached.
func openLink(ctx context.Context, c *config.Config) (*link, error) {
	var server string
	var failed error
	for _, addr := range c.Lock.ZooKeeper.Servers {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		if err == nil {
			_ = conn.Close()
			server = addr
			break
		}
		failed = err
	}
	if server == "" {
		return nil, fmt.Errorf("connect: %w", failed)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l := &link{listener: listener}
	l.work.Go(func() { l.accept(server) })
	z := &c.Lock.ZooKeeper
	z.Servers = []string{listener.Addr().String()}
	if z.TLS != nil {
		if z.TLS = z.TLS.Clone(); z.TLS.ServerName == "" {
			z.TLS.ServerName, _, _ = net.SplitHostPort(server)
		}
	}
	return l, nil
}

// accept passes on each connection, until the listener is closed.
func (l *link) accept(server string) {
	for {
		near, err := l.listener.Accept()
		if err != nil {
			return
		}
		far, err := net.DialTimeout("tcp", server, probeTimeout)
		if err != nil {
			_ = near.Close()
			continue
		}
		if !l.keep(near, far) {
			_, _ = near.Close(), far.Close()
			continue
		}
		l.work.Go(func() { l.pass(far, near) })
		l.work.Go(func() { l.pass(near, far) })
	}
}

// keep keeps connections for close; false after a cut.
func (l *link) keep(near, far net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns = append(l.conns, near, far)
	return !l.isCut.Load()
}

// pass copies what arrives, and drops it after a cut.
func (l *link) pass(to, from net.Conn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			if !l.isCut.Load() {
				_ = to.Close()
			}
			return
		}
		if l.isCut.Load() {
			_, _ = io.Copy(io.Discard, from)
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

func (l *link) cut() { l.isCut.Store(true) }

func (l *link) close() {
	l.cut()
	_ = l.listener.Close()
	l.mu.Lock()
	conns := l.conns
	l.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
	}
	l.work.Wait()
}
