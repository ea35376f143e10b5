// Package zklock keeps locks on ZooKeeper ≥ 3.5.3.
//
// # Protocol
//
// One session is one ZooKeeper session on one connection object of the client library.
// Below the root and the namespace:
//
//	locks/<key>                             a container: its version counts the grants to one alone
//	locks/<key>/held                        ephemeral, exists while one holds the key alone: id, owner, meta, ttl
//	locks/<key>/<id>                        ephemeral, exists beside it: the mark of that grant
//	locks/<key>/pin-…                       ephemeral, exists during an eviction: keeps the container
//	queues/<key>                            a container, exists where some wait, or hold the key together
//	queues/<key>/wait-<kind>-<id>-<number>  ephemeral: a place; the server numbers them
//	queues/<key>/hold-<kind>-<id>           ephemeral: one of several holders
//	queues/<key>/pin-<id>                   ephemeral, exists during a try: keeps the container
//	sessions/<id>                           ephemeral, one for each session: owner
//	notices/<topic>-<number>                ephemeral: a notice; the last few of each session
//
// Containers without nodes are removed by the server, once a minute. An id is that of a session and a number, and never
// used again. The number of the transaction that grants is the token, so tokens grow for as long as the ensemble keeps its data.
//
// A try for a key alone is one multi, which fails if there is a queue or a holder:
//
//	create and delete queues/<key>; set locks/<key>; create held and the mark
//
// Where there is a queue, a try reads it and is refused if somebody waits. Else it takes the key in one multi that checks the
// version of the queue, which grows with every place and every grant to several; and a node whose name is used once keeps the
// container meanwhile, since the versions of one that is made anew begin anew.
//
// A release is one multi {delete the mark, check the version of locks/<key>, delete held}, or one deletion of a node whose
// name is used once: it can free no other grant, however late it arrives. An eviction also changes the node of the session
// that had the key, in the same transaction.
//
// A place is a node that is made last in the queue. Its session reads the queue once, and then waits for the end of one node: that
// of the place before it (for a reader the last before it that does not read), and at the front that of a holder. If that node
// is gone before the watch is set, it reads again. So a release wakes one waiter, or the readers of a batch; a limit lets in one
// after the other. The one whose turn has come takes the key in one multi that deletes its place: if the place, or the
// session, has ended, nothing is granted. While a place is the first, nobody else is admitted, so what it has read of the
// holders can only become less. A place ends with its session, and its node with it.
//
// What answers were lost is read after the next connection: the servers take no request of an earlier connection of the
// session. The keys of a batch are sent without waiting in between, or in one request where all are to be had in turn.
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
// The write expects the version of the last one: another version says that a key was evicted since. So the next renewal that is
// answered says so. What was deleted by hand is found by the sample of a renewal.
//
// # Access
//
// Servers that other machines reach need a login, unless Options.Insecure is set. A login (digest) goes with every connection,
// before anything else is sent on it. ZooKeeper does not check the password: it makes an identity of it, and another password
// is another identity. So a wrong one shows when nodes of the right one are touched.
//
// # Limits
//
// The server picks the session's TTL within its own bounds (2 … 20 ticks unless configured). A
// wiped ensemble begins its tokens anew. List reads the names of all keys of the namespace, and one node or more for each key of
// its page. Pauses of the holder are noticed afterwards: guard what matters with the token.
package zklock

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"strings"
	"sync"
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
	leaving sync.WaitGroup
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
		Name: "zookeeper", FIFO: true, Shared: true, Limit: true, Notices: true, EarlyLoss: true, TrustMargin: time.Duration(d.margin.Load()),
		Note: "The server may grant a longer or shorter TTL than asked for; locks and places of an ended holder are free after it, and a deletion by hand is found late.",
	}
}

// Close waits, for some seconds at most, until the connections of sessions are gone that could not be opened. Every other one belongs
// to a session.
func (d *Driver) Close() error {
	d.leaving.Wait()
	return nil
}

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
