// Package quorumlock keeps locks on a majority of N ≥ 3 independent Redis servers ≥ 6.2 (the algorithm is known as
// Redlock): no single server is needed, and none has to be persistent.
//
// # Protocol
//
// All calls go to all servers at once, each with a time limit of its own. Every operation is one Lua script on a server; the
// scripts are the .lua files of this package, and namespace.lua names the keys. A majority is more than half of all
// servers, whether they answer or not; any two have a server in common.
//
//	ask ──▶ votes ──▶ of a majority ──▶ token written to a majority ──▶ granted
//	          │
//	          ├──▶ a majority names one other ──▶ busy (it has the key, or has the votes for it)
//	          ├──▶ split: votes are given back everywhere ──▶ ask again, after a random pause
//	          └──▶ no majority has answered ──▶ unreachable, recovering, or unknown
//
// Round 1: each server that finds the key free, or shared by readers if the request is shared, votes for the ballot of the
// request, and says the highest token that it knows, or its clock in µs if that is more. Round 2: the highest of these and
// one is written back to those that voted, if their vote is still there. The key is granted when a majority confirms that. The
// next grant has the votes of another majority, which has one of these servers: so its token is larger, whatever the
// clocks say.
//
// A ballot is a number of the session, one for each attempt. A server that may have a vote which does not count is asked
// to delete it, and to refuse the ballot for one TTL, since the request for it may still be under way: at once, and with each
// later call until it has answered.
//
// # Sessions
//
// A session lives on a majority: one call a server renews it, however many keys it holds. A renewal counts if, for each key, a
// majority of servers that have the key has confirmed it. A server that does not know the session or one of its keys, since
// it was away or has lost its data, gets them from that renewal. The session has ended when so many servers say so that the
// others are no majority. Each server decides by its own clock.
//
// What is released while a server is away is freed there with the next call that reaches it. If that is too much to keep, the
// session gets no votes there until a renewal installs it anew, which frees all of it.
//
// # A server that was restarted
//
// A server that forgets a vote could give it a second time, and two would have a majority. So each server keeps the run_id
// of the run in which the namespace was written, and compares it in every script. If it differs or is gone, the server
// deletes what it has of the namespace, and does not vote for one TTL, the longest that a session which it forgot may
// rely on it. It does not vote either until a session has brought it the highest token of a majority of the others. A server
// without state may also be new: then it votes at once if it has been up for longer than the TTL or [Options] say so, and does
// not have the namespace's mark, a comment in its script cache, which survives FLUSHALL and not a restart.
// [driver.ErrRecovering]: so many servers do not vote that the others are no majority.
//
// # Limits
//
// What is promised holds while at most N minus a majority of the servers are down, or were restarted within one TTL; they
// may be different ones from one TTL to the next. A clock that steps forward makes its server forget a holder early, as
// many servers may step as hold the key beyond a majority: with 5 servers up 2, with 3 of 5 up none. Guard every write with
// the token: its order depends on no clock, unless a majority of the servers has lost its data within one TTL.
//
// Keys can be shared. There is no Limit, no queue and no order: who waits asks again, and readers that never leave a gap keep a writer
// out. An even number of servers tolerates no more failures than one server less.
//
// Sessions of one namespace should have TTLs within a factor of three, as a server that was restarted waits for the TTL of
// those that call it. A server that is named twice fails Open, or votes once if one of the names was away then. Where INFO is forbidden the
// run_id is unknown: a server restarted from a snapshot votes at once, and the same server named twice is not noticed.
package quorumlock

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockstep-scheduler/lockstep/internal/nilcheck"
	"github.com/lockstep-scheduler/lockstep/internal/redisconn"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// openLimit bounds a call to one server that opens a session.
const openLimit = 5 * time.Second

// Driver opens lock sessions on several Redis servers.
type Driver struct {
	nodes      []*node
	options    Options
	hidesRunID atomic.Bool // a server does not report its run_id
}

var _ driver.Driver = (*Driver)(nil)

// Options of a driver. The zero value is what production wants.
type Options struct {
	// NodeTimeout bounds each call to one server, but for Open; 0: a fifth of the session's TTL, but at least 200 ms and at most 1 s.
	NodeTimeout time.Duration
	// NoGracePeriod lets servers vote at once in a namespace that they do not know. Without it a server that has been up for
	// less than a TTL does not vote for one TTL: it may have restarted empty, and forgotten its votes.
	//
	// It is safe if no lock of the namespace was held on these servers within the last TTL. Else two may hold one. A server
	// that loses its data later, once the namespace has been used, waits as ever.
	NoGracePeriod bool
}

// New returns a driver that uses the clients, one for each server, and leaves closing them to the caller. Fewer than three, one that is nil, or two
// for one address are an error of locks.New.
func New(clients []redis.UniversalClient, o Options) *Driver {
	d := &Driver{options: o}
	for _, rdb := range clients {
		d.nodes = append(d.nodes, newNode(rdb))
	}
	return d
}

// Valid says what is wrong with what the driver was made of.
func (d *Driver) Valid() error {
	if len(d.nodes) < 3 || len(d.nodes) > 63 {
		return fmt.Errorf("quorumlock: New: %d servers: a quorum has 3 to 63, better an odd number", len(d.nodes))
	}
	if d.options.NodeTimeout < 0 {
		return fmt.Errorf("quorumlock: New: NodeTimeout is %v", d.options.NodeTimeout)
	}
	seen := map[string]bool{}
	for i, n := range d.nodes {
		if nilcheck.IsNil(n.rdb) {
			return fmt.Errorf("quorumlock: New: client %d is nil", i+1)
		}
		if _, ok := n.rdb.(*redis.ClusterClient); ok {
			return fmt.Errorf("quorumlock: New: client %d is one of a Cluster: each server of a quorum stands alone", i+1)
		}
		at := n.address()
		if c, ok := n.rdb.(*redis.Client); ok && seen[at] && c.Options().Addr != redisconn.BehindSentinel {
			return fmt.Errorf("quorumlock: New: %s is named twice: it would vote twice", at)
		}
		seen[at] = true
	}
	return nil
}

// majority is how many servers decide.
func (d *Driver) majority() int { return len(d.nodes)/2 + 1 }

// Caps says what a lock on a quorum is worth.
func (d *Driver) Caps() driver.Caps {
	note := fmt.Sprintf("A lock is held on %d of %d servers; who waits asks again, with pauses that grow from 5 to 250 ms on average, in no order; nothing is promised beyond the servers' clocks.",
		d.majority(), len(d.nodes))
	if len(d.nodes)%2 == 0 {
		note += fmt.Sprintf(" %d servers may be away, no more than of %d.", len(d.nodes)-d.majority(), len(d.nodes)-1)
	}
	if d.hidesRunID.Load() {
		note += " A server does not report its run_id (INFO server): lost data is noticed, but not a restart from a snapshot."
	}
	return driver.Caps{Name: "quorum", Shared: true, EarlyLoss: true, TrustMargin: 50 * time.Millisecond, Volatile: true, Note: note}
}

// Close does nothing: the clients are the caller's.
func (d *Driver) Close() error { return nil }

// Open starts a session, if a majority of the servers can be reached. It refuses a server that answers and is not suitable: one that may
// evict keys without a TTL (maxmemory-policy allkeys-*), a replica, or one that was named twice. While fewer than a majority may vote,
// it succeeds, and TryAcquire returns driver.ErrRecovering.
func (d *Driver) Open(ctx context.Context, o driver.Open) (driver.Session, error) {
	if err := d.Valid(); err != nil {
		return nil, err
	}
	s := newSession(d, o, rand.Text())
	if err := s.open(ctx, d); err != nil {
		abandoned, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.limit)
		defer cancel()
		_ = s.Close(abandoned) // else it expires
		return nil, fmt.Errorf("quorumlock: open: %w", err)
	}
	return s, nil
}
