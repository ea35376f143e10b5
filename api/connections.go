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
	// newcomerShare is the part that is kept for connections which have shown no token yet, of leastNewcomers at
	// least where there are enough.
	newcomerShare, leastNewcomers = 8, 4
	// acceptLeast and acceptMost bound the pause after the system had no connection to give.
	acceptLeast, acceptMost = 5 * time.Millisecond, time.Second
	// roomLogs is how often the log hears of connections that had to go.
	roomLogs = 10 * time.Second
)

// connections is a listener that bounds how many there are, of all together and of each address. Where all places are taken
// a new one waits until a stranger of the address that has most of them has had a moment, and takes its place. The moment
// is over with the first answer, and it is short for one that says nothing while its address has other places: so a crowd of
// silent ones is gone through soon, and delays who comes after it little. Strangers are those that have shown no good
// token, so they hold up each other alone. Where there are none, a connection that lies idle goes; where there is none
// either, the new one is closed.
//
// Where an address has its share, a new one takes the place of a stranger of that address that has had its moment, or of one
// that lies idle; else it is closed at once, so that it holds up no other address.
//
// A token that has its share of connections, on which it was the last one shown, loses one of them for the next: the one that
// is idle longest, else the one that is there longest. Some places are kept for those who have not shown a token yet.
// Who shows one while the others are taken gets the place of an idle connection, or of the token that has most; else
// it is answered as a stranger is, and may have to go.
//
// Connections of this machine and of trusted proxies have no share for their address: they may carry many users.
type connections struct {
	net.Listener
	most    int
	proxies []netip.Prefix
	log     *slog.Logger
	closing chan struct{}
	once    sync.Once

	freed chan struct{} // a place was given free; for Accept

	mu        sync.Mutex
	all       map[*connection]struct{}
	from      counts[netip.Prefix] // of those that count for the share of their address
	strangers counts[netip.Prefix] // of those that are not known
	known     int
	of        counts[string] // of those that are known, for their party
	unsaid    int            // that had to go since the log heard of it
	said      time.Time
}

func newConnections(l net.Listener, o ServeOptions) *connections {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &connections{
		Listener: l, most: cmp.Or(max(o.MaxConnections, 0), defaultConnections), proxies: o.TrustedProxies, log: o.Logger,
		closing: make(chan struct{}), freed: make(chan struct{}, 1), all: map[*connection]struct{}{},
		from: counts[netip.Prefix]{}, strangers: counts[netip.Prefix]{}, of: counts[string]{},
	}
}

// Accept returns the next connection. Only the end of the listener ends it: what else keeps the system
// from giving one passes.
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
			l.note("no connection could be accepted", "error", err)
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

// expire closes strangers that are idle for too long, until the listener is closed.
func (l *connections) expire() {
	for {
		wait := strangerIdle // a connection that comes now stays as long
		var idle []*connection
		l.mu.Lock()
		for c := range l.all {
			if c.known || c.serving {
				continue
			}
			since := c.idle
			if since.IsZero() {
				since = c.since
			}
			if left := strangerIdle - time.Since(since); left > 0 {
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

// admit makes room for a connection, or closes it and returns nil. wait > 0 says that it has to wait as
// long, as all others came right now: each gets the time for a handshake and a request.
func (l *connections) admit(conn net.Conn) (_ *connection, wait time.Duration) {
	c := &connection{Conn: conn, of: l, since: time.Now()}
	c.comesFrom(conn.RemoteAddr())
	l.mu.Lock()
	var victim *connection
	full := true
	switch {
	case c.shared && l.from[c.address] >= int64(max(leastOfAddress, l.most/addressShare)):
		if victim = l.stranger(c.address); victim != nil && time.Until(l.stays(victim)) > 0 {
			victim = nil
		}
		victim = cmp.Or(victim, l.spare(c.address))
	case len(l.all) >= l.most:
		victim = cmp.Or(l.stranger(netip.Prefix{}), l.spare(netip.Prefix{}))
		if victim != nil && !victim.known {
			wait = time.Until(l.stays(victim))
		}
	default:
		full = false
	}
	if wait > 0 {
		l.mu.Unlock()
		return nil, wait
	}
	if full && victim == nil {
		victim = c
	} else {
		l.enter(c)
	}
	if victim != nil {
		l.leave(victim)
	}
	l.mu.Unlock()
	if victim == nil {
		return c, 0
	}
	_ = victim.Conn.Close()
	l.note("a connection was closed: there are as many as may be", "from", victim.RemoteAddr().String())
	if victim == c {
		return nil, 0
	}
	return c, 0
}

// giveOne closes a connection for its descriptor.
func (l *connections) giveOne() {
	l.mu.Lock()
	victim := cmp.Or(l.stranger(netip.Prefix{}), l.spare(netip.Prefix{}))
	if victim != nil {
		l.leave(victim)
	}
	l.mu.Unlock()
	if victim != nil {
		_ = victim.Conn.Close()
	}
}

// comesFrom notes where a connection comes from, and what it counts for.
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
	l.strangers.add(c.address, 1)
	if c.shared {
		l.from.add(c.address, 1)
	}
	if c.trusted && l.known < l.mostKnown() {
		l.know(c, "")
	}
}

func (l *connections) leave(c *connection) {
	if _, in := l.all[c]; !in {
		return
	}
	delete(l.all, c)
	l.forget(c)
	l.strangers.add(c.address, -1)
	if c.shared {
		l.from.add(c.address, -1)
	}
	select {
	case l.freed <- struct{}{}:
	default:
	}
}

// note tells the log, seldom however often there is something to tell.
func (l *connections) note(message string, attrs ...any) {
	l.mu.Lock()
	l.unsaid++
	count, say := l.unsaid, time.Since(l.said) >= roomLogs
	if say {
		l.unsaid, l.said = 0, time.Now()
	}
	l.mu.Unlock()
	if say {
		l.log.Warn(message, append(attrs, "times", count, "limit", l.most)...)
	}
}
