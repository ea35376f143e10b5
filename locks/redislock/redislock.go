// Package redislock keeps locks on one Redis ≥ 6.2: standalone, behind Sentinel, or the shard of a Cluster that
// a namespace's hash tag picks.
//
// # Protocol
//
// Every operation is one Lua script and one round trip; the scripts are the .lua files of this package, and
// namespace.lua names the keys. Sessions expire by the server's clock, inside the scripts. The keys have no
// TTL, so Redis does not delete a lock. Locks of expired sessions are replaced in place, and reaped a few at a
// time by the renewals of live sessions. An unused namespace keeps one small hash: its epoch and its highest
// token.
//
// # Queue
//
// A key has a queue of places, with numbers of one counter of the namespace. The script that frees a key, or ends the place
// that others wait behind (release, abandon, evict, close, and the renewals that reap dead sessions), makes the first living
// place a holder in the same moment and publishes that to the channel of its session, {lockstep:<namespace>}:inbox:<session>:
// no client polls, and one is woken. A key whose queue is not empty is never free, so a try does not overtake. Messages of
// Redis can be lost; Look then tells the same, and it frees what a dead session holds. A place of a dead session is passed
// over.
//
// # One free key
//
// acquire_fast.lua and release_fast.lua begin the script and answer the common case, in which nobody waits: six and three
// commands. A key granted so has its record in the hash of the state, which the script reads anyway, and its two members of the
// index, by which lists and the end of a session find it. It gets an entry of its own before another session may hold it or wait
// for it. In all other cases they have written nothing, and the script goes on in the same call.
//
// # Epoch
//
// Redis can lose data: by a restart without data or from an old snapshot, by FLUSHALL, or by a failover to a
// replica that lags. Then two clients could hold one key. So the namespace stores the run_id of the server that
// wrote it, and scripts compare it with that of the server before every grant, at every renewal, check and eviction (inside
// the script; a client cannot know which server its next command will reach). INFO tells the run_id, and costs much
// of a grant; the script that grants has a proof of it, which costs nothing: an id in its text, which one process
// of the server has in its cache, and the state has as long as it belongs to that process. See proof in proof.go.
// Sessions know the generation that they were installed in and name it with each call. If the run_id differs or
// the state is gone, a new generation begins:
//
//   - nothing is granted for one TTL ([driver.ErrRecovering]), the longest that a session which
//     Redis forgot may still trust its locks;
//   - sessions of the old generation learn of it by their next call, and reassert what they hold
//     with its tokens, and their places with their numbers, in one call. A session that comes too late is lost;
//   - the highest token becomes at least the server's clock and every reasserted token.
//
// A namespace without state may also be new. It starts without delay if the server has been up for longer than
// the TTL or [Options] say so, never was a replica, and does not have the namespace's mark: a comment kept in
// the script cache, which survives FLUSHALL and not a restart. After SCRIPT FLUSH the next renewal of the
// namespace restores it.
//
// # Limits
//
// Sessions of one namespace should have TTLs within a factor of three: the recovery of a server that lost all
// data lasts for the TTL of the session that sees it first, until others report. A server whose scripts and
// data are flushed before a session of the namespace calls again looks new. Redis uses the wall clock: a step
// forward expires sessions early. A primary that is disconnected from its replicas grants until it notices.
// Calls end at the deadline of their context, or when it is cancelled, whichever is first; where the client is a redis.Client and
// the deadline less than 5 s away, a call that is under way ends at the deadline only.
// Where INFO is forbidden the run_id is unknown, and a restart from a snapshot or a failover is not noticed;
// [Driver.Caps] then says so. Guard every write with the token.
package redislock

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockstep-scheduler/lockstep/internal/calls"
	"github.com/lockstep-scheduler/lockstep/internal/nilcheck"
	"github.com/lockstep-scheduler/lockstep/internal/redisconn"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// openLimit ends an Open whose context would wait for ever.
const openLimit = 5 * time.Second

// Driver opens lock sessions on one Redis.
type Driver struct {
	rdb     redis.UniversalClient
	options Options
	lacks   lacks
}

// lacks says what the server does not let the user do.
type lacks struct {
	runID    atomic.Bool // to read its run_id
	channels atomic.Bool // to publish and subscribe to grants
}

var _ driver.Driver = (*Driver)(nil)

// Options of a driver. The zero value is what production wants.
type Options struct {
	// NoGracePeriod grants locks at once in a namespace that the server does not know. Without it a server that has been
	// up for less than a TTL, as any is that a test has just started, grants nothing for one TTL: it may have restarted
	// empty, and forgotten whose locks are held.
	//
	// It is safe if no lock of the namespace was held, on this server or on one that it replaces, within the last
	// TTL. Else two may hold one. A server that loses its data later, once the namespace has been used, waits as ever.
	NoGracePeriod bool
}

// New returns a driver that uses rdb and leaves closing it to the caller. An rdb that is nil is an error of locks.New.
//
// It has no Options, unlike New of the other backends, since programs call redislock.New(rdb), and almost none needs an option:
// see [NewWith].
func New(rdb redis.UniversalClient) *Driver { return NewWith(rdb, Options{}) }

// NewWith is New with options. It is a function of its own, as bufio.NewReaderSize is, and options are not variadic: that would let several
// be passed, of which one counts.
func NewWith(rdb redis.UniversalClient, o Options) *Driver { return &Driver{rdb: rdb, options: o} }

// Valid says what is wrong with what the driver was made of.
func (d *Driver) Valid() error {
	if nilcheck.IsNil(d.rdb) {
		return errors.New("redislock: New: the client is nil")
	}
	return nil
}

// Caps says what a lock on Redis is worth.
func (d *Driver) Caps() driver.Caps {
	note := "After a restart, a failover or lost data nothing is granted for one TTL, while live sessions reassert what they hold."
	if d.lacks.runID.Load() {
		note = "This Redis does not report its run_id (INFO server): lost data is noticed, but not a restart from a snapshot or a failover."
	}
	if d.lacks.channels.Load() {
		note += " The user may not publish and subscribe (+publish +subscribe +ping &{lockstep:*): a lock that is waited for is handed over up to 1 s late."
	}
	return driver.Caps{Name: "redis", FIFO: true, Shared: true, Limit: true, Notices: true, EarlyLoss: true, TrustMargin: 50 * time.Millisecond, Volatile: true, Note: note}
}

// Close does nothing: the client is the caller's.
func (d *Driver) Close() error { return nil }

// Open starts a session. It refuses a server that may evict keys without a TTL (maxmemory-policy allkeys-*). Right after lost data it
// succeeds, and TryAcquire returns driver.ErrRecovering for one TTL.
func (d *Driver) Open(ctx context.Context, o driver.Open) (driver.Session, error) {
	if err := d.Valid(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, openLimit, fmt.Errorf("no answer in %v", openLimit))
	defer cancel()
	s := newSession(d, o, rand.Text())
	if err := s.open(ctx, d.options); err != nil {
		return nil, s.failed("open", redisconn.Refused(d.rdb, err))
	}
	return s, nil
}

// Check says whether the server can be reached and is suitable for locks, as far as can be checked without
// a namespace. It writes nothing.
func (d *Driver) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, openLimit, fmt.Errorf("no answer in %v", openLimit))
	defer cancel()
	var g calls.Group
	answer, err := calls.Await(ctx, &g, func() ([]any, error) {
		if err := redisconn.Dial(ctx, d.rdb); err != nil {
			return nil, fmt.Errorf("%w: %w", driver.ErrUnreachable, err)
		}
		return memoryScript.Run(ctx, d.rdb, nil).Slice()
	})
	if err == nil {
		err = redisconn.Keeps(answer)
	}
	err = cmp.Or(err, g.Join(ctx))
	if err != nil {
		return fmt.Errorf("redislock: check %s: %w", redisconn.Address(d.rdb), redisconn.Refused(d.rdb, err))
	}
	return nil
}
