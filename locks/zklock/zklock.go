// Package zklock keeps locks on ZooKeeper ≥ 3.5.3.
//
// # Protocol
//
// One session is one ZooKeeper session on one connection object of the client library.
// Below the root and the namespace:
//
//	locks/<key>        a container: its version counts the grants; the server removes it once idle
//	locks/<key>/held   ephemeral, exists while the key is held: acquisition, owner, meta
//	locks/<key>/pin-…  ephemeral, exists during an eviction: keeps the container
//	sessions/<id>      ephemeral, one for each session: owner
//
// A grant is one multi{set data of the container, create held}; its transaction number is the
// token, so tokens grow for as long as the ensemble keeps its data. A release, and an eviction,
// reads whose node it is and then deletes it with multi{check the container's version, delete
// held}: a grant to another session in between stays. An eviction has a node of its own in the
// container meanwhile, since the versions of one that is made anew begin anew. The keys of a batch
// are sent one after the other without waiting in between, so they cost about one round trip.
//
// # Sessions
//
// The library goes on with a new session when the old one has expired, and requests that were
// queued for the old one then act in the new: they delete other clients' nodes, and find nothing of
// their own. Here the connection refuses to dial again once its session has expired. The library
// does not report whether pings are answered, so a renewal is a write to the session's node: the
// quorum has to agree that the session is live. Its pings would also keep a session whose owner
// no longer asks: a session that is not renewed for its TTL is closed.
//
// # Access
//
// A login (digest) goes with every connection, before anything else is sent on it. ZooKeeper does
// not check the password: it makes an identity of it, and another password is another identity. So
// a wrong one shows when nodes of the right one are touched.
//
// # Limits
//
// The server picks the session's TTL within its own bounds (2 … 20 ticks unless configured). A
// wiped ensemble begins its tokens anew. A release frees a grant of another session if, between its
// two requests, its own was evicted, the server removed the idle container (it looks once a minute),
// and the key was granted again. Pauses of the holder are noticed afterwards: guard what matters
// with the token.
package zklock

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

const (
	// openLimit ends an Open whose context would wait for ever.
	openLimit = 5 * time.Second
	// maxMargin is half of ZooKeeper's default tick: a follower may be that late in telling the
	// leader that a session has been heard of.
	maxMargin = time.Second
)

// Options of a Driver. The zero value works with servers on loopback.
type Options struct {
	// Root is the node that all namespaces live below; default "/lockstep". It is what a chroot behind the servers of a
	// connect string is to other clients.
	Root           string
	SessionTimeout time.Duration // to ask the server for; default: the TTL that a session is opened with

	// Auth, "user:password", logs in with the scheme digest. Every node is then made so that only
	// this user can read and change it, and Open refuses nodes that every client can change. All replicas need the same.
	Auth string
	// Insecure allows servers that other machines reach without Auth: every client of theirs can read, take and free the
	// locks. Without both, Valid refuses them.
	Insecure bool
	// TLS encrypts the connections; its ServerName, if empty, is the name of the server dialled.
	TLS *tls.Config
}

// Driver opens lock sessions on one ensemble.
type Driver struct {
	servers []string
	options Options
	login   login
	invalid error        // what is wrong with the options
	margin  atomic.Int64 // time.Duration
}

var _ driver.Driver = (*Driver)(nil)

// New returns a driver for the ensemble with these servers (host:port each). It does not connect;
// what is wrong with servers or options, locks.New says.
func New(servers []string, o Options) *Driver {
	if o.Root == "" {
		o.Root = "/lockstep"
	}
	o.Root = strings.TrimRight(o.Root, "/")
	d := &Driver{servers: servers, options: o}
	d.login, d.invalid = loginOf(o.Auth)
	d.invalid = cmp.Or(reachable(servers), d.invalid)
	if addr := elsewhere(servers); d.invalid == nil && o.Auth == "" && !o.Insecure && addr != "" {
		d.invalid = fmt.Errorf("zklock: New: without Options.Auth every client that reaches %s can take, free and change the locks; in a private network, Options.Insecure allows that", addr)
	}
	d.margin.Store(int64(marginOf(o.SessionTimeout)))
	return d
}

func marginOf(timeout time.Duration) time.Duration {
	if timeout <= 0 {
		return maxMargin
	}
	return min(maxMargin, timeout/4)
}

// Caps says what a lock on ZooKeeper is worth.
func (d *Driver) Caps() driver.Caps {
	return driver.Caps{
		Name: "zookeeper", FIFO: true, Shared: true, Limit: true, EarlyLoss: true, TrustMargin: time.Duration(d.margin.Load()),
		Note: "The server may grant a longer or shorter TTL than asked for; locks of an ended holder are free after it.",
	}
}

// Close does nothing: every connection belongs to a session.
func (d *Driver) Close() error { return nil }

// Valid says what is wrong with what the driver was made of.
func (d *Driver) Valid() error { return d.invalid }

// Open connects and starts a session.
func (d *Driver) Open(ctx context.Context, o driver.Open) (driver.Session, error) {
	s := newSession(d, o)
	if err := d.begin(ctx, s, "open", o.TTL, s.settle); err != nil {
		return nil, err
	}
	d.margin.Store(int64(marginOf(s.ttl)))
	return s, nil
}

// begin connects a session and does what is first. timeout is the session timeout to ask for, if none is set.
func (d *Driver) begin(ctx context.Context, s *session, op string, timeout time.Duration, first func() error) error {
	if d.invalid != nil {
		return d.invalid
	}
	if d.options.SessionTimeout > 0 {
		timeout = d.options.SessionTimeout
	}
	ctx, cancel := context.WithTimeoutCause(ctx, openLimit, fmt.Errorf("no session in %v", openLimit))
	defer cancel()
	return s.failed(op, s.begin(ctx, timeout, first))
}
