package api

import (
	"cmp"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"
)

const (
	defaultConnections = 512
	// addressShare is the share of one address, leastOfAddress its minimum in connections.
	addressShare, leastOfAddress = 4, 8
	// partyShare is the share of one token, at least leastOfAddress.
	partyShare = 4
	// anonymousShare is reserved for anonymous connections, at least leastAnonymous if there are enough.
	anonymousShare, leastAnonymous = 8, 4
	// acceptLeast and acceptMost bound the backoff after an error of accept.
	acceptLeast, acceptMost = 5 * time.Millisecond, time.Second
	// roomLogs is the interval of log lines about evictions.
	roomLogs = 10 * time.Second
)

// connections is a listener that bounds connections: in total, per address and per token. An authenticated connection
// has sent a good token; others are anonymous.
//
//  1. accept a connection; after an error wait, longer each time, and evict one if no descriptors are left
//  2. admit it if a place is free, or one that may be evicted now
//  3. if one may be evicted later, wait until then, or until a place is free, and try again
//  4. else close it
//
// When all places are taken, a new connection waits until an anonymous one may be evicted: of the address with most of
// them first, once it was answered or had time to send a token, which is shorter for a silent one whose address has
// others. If there is none, an idle authenticated one is evicted, else the new one is closed.
//
// When an address has its share, its next connection evicts an anonymous one of that address that had its time, or an
// idle one; else it is closed at once, without delay for others.
//
// When a token has its share, its next connection evicts the one that is idle longest, else the oldest. Some places are
// reserved for anonymous connections: a connection that authenticates while all others are taken evicts an idle one, or
// one of the token with most; else it stays anonymous.
//
// Loopback and trusted proxies have no share per address: they may carry many users.
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

// Accept returns the next connection. Only the listener's end is an error; other errors are retried with backoff.
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

// expire closes anonymous connections that are idle too long, until the listener is closed.
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

// admit makes room for a connection, or closes it and returns nil. wait > 0: retry after it, since no connection may be
// evicted yet.
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

// giveOne evicts a connection to free its descriptor.
func (l *connections) giveOne() {
	l.mu.Lock()
	evicted := cmp.Or(l.nextAnonymous(netip.Prefix{}), l.idlest(netip.Prefix{}))
	l.mu.Unlock()
	if evicted != nil {
		_ = evicted.Close()
	}
}

// comesFrom sets the address of a connection, and whether it counts for that address's share.
func (c *connection) comesFrom(remote net.Addr) {
	tcp, ok := remote.(*net.TCPAddr)
	if !ok {
		return
	}
	from := tcp.AddrPort().Addr().Unmap()
	if among(c.of.proxies, from) {
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

// note logs a message with a count, at most once per roomLogs.
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
