package api

import (
	"cmp"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"time"
)

const (
	defaultConnections = 512
	// addressShare is the part of all connections that one address may have, and leastOfAddress how many
	// it may have at least.
	addressShare, leastOfAddress = 4, 8
	// partyShare is the part that one token may have; it may have leastOfAddress at least.
	partyShare = 4
	// anonymousShare is the part that is kept for anonymous connections, leastAnonymous at least where there are enough.
	anonymousShare, leastAnonymous = 8, 4
	// acceptLeast and acceptMost bound the pause after the system had no connection to give.
	acceptLeast, acceptMost = 5 * time.Millisecond, time.Second
	// roomLogs is how often evictions are logged.
	roomLogs = 10 * time.Second
)

// connections is a listener that bounds the connections, all together and those of each address. An authenticated
// connection has carried a good token; the others are anonymous.
//
// Where all places are taken, a new connection waits until an anonymous one may be evicted: of the address with most of
// them first, once it was answered or has had the time to send a token, which is short for one that is silent while its
// address has others. So many silent connections delay a new one little, and anonymous ones delay each other alone. Where
// there are none, an idle authenticated one is evicted; where there is none either, the new one is closed.
//
// Where an address has its share, an anonymous connection of that address that has had its time is evicted for a new one,
// or an idle one; else the new one is closed at once, so that it delays no other address.
//
// A token that has its share of connections, on which it was the last one sent, loses one for the next: the one that is
// idle longest, else the oldest. Some places are kept for anonymous connections. A connection that sends a token while the
// others are taken gets the place of an idle one, or of the token with most; else it stays anonymous.
//
// Connections of this machine and of trusted proxies have no share for their address: they may carry many users.
type connections struct {
	net.Listener
	most    int
	proxies []netip.Prefix
	log     *slog.Logger
	closing chan struct{}
	once    sync.Once

	freed chan struct{} // a place was freed; for Accept

	mu            sync.Mutex
	all           map[*connection]struct{}
	from          counts[netip.Prefix] // of those that count for the share of their address
	anonymous     counts[netip.Prefix] // of anonymous ones
	authenticated int
	of            counts[string] // of authenticated ones, by party
	unlogged      int            // evicted since the last line in the log
	logged        time.Time
}

func newConnections(l net.Listener, o ServeOptions) *connections {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &connections{
		Listener: l, most: cmp.Or(max(o.MaxConnections, 0), defaultConnections), proxies: o.TrustedProxies, log: o.Logger,
		closing: make(chan struct{}), freed: make(chan struct{}, 1), all: map[*connection]struct{}{},
		from: counts[netip.Prefix]{}, anonymous: counts[netip.Prefix]{}, of: counts[string]{},
	}
}

// Accept returns the next connection. It ends with the listener only: other errors of the system are waited out.
func (l *connections) Accept() (net.Conn, error) {
	pause := acceptLeast
	for {
		conn, err := l.Listener.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil, err
		case err != nil:
			if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
				l.giveOne()
			}
			l.note("accept failed", "error", err)
			select {
			case <-l.closing:
				return nil, net.ErrClosed
			case <-time.After(pause):
			}
			pause = min(2*pause, acceptMost)
			continue
		}
		pause = acceptLeast
		c, wait := l.admit(conn)
		for wait > 0 {
			select {
			case <-l.closing:
				_ = conn.Close()
				return nil, net.ErrClosed
			case <-l.freed:
			case <-time.After(wait):
			}
			c, wait = l.admit(conn)
		}
		if c != nil {
			return c, nil
		}
	}
}

// Close ends Accept.
func (l *connections) Close() error {
	l.once.Do(func() { close(l.closing) })
	return l.Listener.Close()
}

// expire closes anonymous connections that are idle for too long, until the listener is closed.
func (l *connections) expire() {
	for {
		wait := anonymousIdle // a connection that comes now stays as long
		var idle []*connection
		l.mu.Lock()
		for c := range l.all {
			if c.authenticated || c.serving {
				continue
			}
			since := c.idle
			if since.IsZero() {
				since = c.since
			}
			if left := anonymousIdle - time.Since(since); left > 0 {
				wait = min(wait, left)
				continue
			}
			l.leave(c)
			idle = append(idle, c)
		}
		l.mu.Unlock()
		for _, c := range idle {
			_ = c.Conn.Close()
		}
		select {
		case <-l.closing:
			return
		case <-time.After(wait):
		}
	}
}

// admit makes room for a connection, or closes it and returns nil. wait > 0 says how long it has to wait, as all others
// are too new to be evicted.
func (l *connections) admit(conn net.Conn) (_ *connection, wait time.Duration) {
	c := &connection{Conn: conn, of: l, since: time.Now()}
	c.comesFrom(conn.RemoteAddr())
	l.mu.Lock()
	var evicted *connection
	full := true
	switch {
	case c.shared && l.from[c.address] >= int64(max(leastOfAddress, l.most/addressShare)):
		if evicted = l.nextAnonymous(c.address); evicted != nil && time.Until(l.stays(evicted)) > 0 {
			evicted = nil
		}
		evicted = cmp.Or(evicted, l.idlest(c.address))
	case len(l.all) >= l.most:
		evicted = cmp.Or(l.nextAnonymous(netip.Prefix{}), l.idlest(netip.Prefix{}))
		if evicted != nil && !evicted.authenticated {
			wait = time.Until(l.stays(evicted))
		}
	default:
		full = false
	}
	if wait > 0 {
		l.mu.Unlock()
		return nil, wait
	}
	if full && evicted == nil {
		evicted = c
	} else {
		l.enter(c)
	}
	if evicted != nil {
		l.leave(evicted)
	}
	l.mu.Unlock()
	if evicted == nil {
		return c, 0
	}
	_ = evicted.Conn.Close()
	l.note("connection evicted: all places are taken", "from", evicted.RemoteAddr().String())
	if evicted == c {
		return nil, 0
	}
	return c, 0
}

// giveOne evicts a connection for its descriptor.
func (l *connections) giveOne() {
	l.mu.Lock()
	evicted := cmp.Or(l.nextAnonymous(netip.Prefix{}), l.idlest(netip.Prefix{}))
	if evicted != nil {
		l.leave(evicted)
	}
	l.mu.Unlock()
	if evicted != nil {
		_ = evicted.Conn.Close()
	}
}

// comesFrom notes the address of a connection, and whether it counts for the share of that.
func (c *connection) comesFrom(remote net.Addr) {
	tcp, ok := remote.(*net.TCPAddr)
	if !ok {
		return
	}
	from := tcp.AddrPort().Addr().Unmap()
	if slices.ContainsFunc(c.of.proxies, func(p netip.Prefix) bool { return p.Contains(from) }) {
		c.trusted = true
		return
	}
	c.address, c.shared = bucketOf(from), !from.IsLoopback()
}

// enter and leave keep count. The caller holds l.mu.
func (l *connections) enter(c *connection) {
	l.all[c] = struct{}{}
	l.anonymous.add(c.address, 1)
	if c.shared {
		l.from.add(c.address, 1)
	}
	if c.trusted && l.authenticated < l.mostAuthenticated() {
		l.count(c, "")
	}
}

func (l *connections) leave(c *connection) {
	if _, in := l.all[c]; !in {
		return
	}
	delete(l.all, c)
	l.uncount(c)
	l.anonymous.add(c.address, -1)
	if c.shared {
		l.from.add(c.address, -1)
	}
	select {
	case l.freed <- struct{}{}:
	default:
	}
}

// note logs a message with a count, at most one each roomLogs.
func (l *connections) note(message string, attrs ...any) {
	l.mu.Lock()
	l.unlogged++
	count, say := l.unlogged, time.Since(l.logged) >= roomLogs
	if say {
		l.unlogged, l.logged = 0, time.Now()
	}
	l.mu.Unlock()
	if say {
		l.log.Warn(message, append(attrs, "times", count, "limit", l.most)...)
	}
}
