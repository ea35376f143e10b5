// Package driver is what a lock backend must do, and no more. Programs use package locks, which is
// written once above all backends: renewal, trust, lost signals, reentrancy, retries and waiting.
//
// To write a backend:
//
//  1. Open returns a [Session]: the one thing of yours that can expire. Every lock held through it
//     dies with it. Never renew single keys.
//  2. Let your server judge expiry, by its own clock. Never compare this process's clock with a
//     stored time.
//  3. Mint a [Token] with each grant that is larger than every earlier one of the same key, also
//     after the key was released, expired, or the server restarted: max(last+1, server time in µs)
//     or a transaction number. Do not leave state behind for a key that nobody holds, except one
//     high-water mark per namespace.
//  4. Busy, unknown and lost are three outcomes. Busy is a Result. Anything that leaves open
//     whether the server acted is an error that wraps none of the sentinels below. Never guess.
//  5. Obey ctx in every call.
//  6. Pass lockstest.Run, with two clients and loss.
package driver

import (
	"context"
	"errors"
	"time"
)

// Token is a fencing token: larger for every later grant of the same key on one backend; 0 = none.
type Token int64

var (
	// ErrSessionLost: the session is over, for good: it expired, was evicted, or the server forgot
	// it. Nothing that was held through it is held any more.
	ErrSessionLost = errors.New("lock session lost")
	// ErrRecovering: the server answers but is new or was started again, has failed over or has lost data, a short time
	// ago, and grants nothing until every lease that it may not know of has ended.
	ErrRecovering = errors.New("lock service recovering")
	// ErrUnreachable: nothing was sent. An error after sending must not wrap it.
	ErrUnreachable = errors.New("lock service unreachable")
)

// Driver opens sessions. It must be safe for concurrent use.
type Driver interface {
	// Open starts a session. It must fail, and not wait for ever, when the server cannot be
	// reached: the error names the address and the cause. With ErrRecovering the caller tries again
	// later.
	Open(ctx context.Context, o Open) (Session, error)
	// Caps says what this backend really guarantees.
	Caps() Caps
	// Close frees what the driver itself opened; it must not close what the program gave it.
	Close() error
}

// Checked drivers say what is wrong with what they were made of, without a call to the server: their New
// returns no error, and locks.New asks first. Open must return the same error.
type Checked interface {
	Valid() error
}

// Open is what a session is opened with.
type Open struct {
	Namespace string        // all keys live below it; other namespaces must not be touched
	TTL       time.Duration // the server must let go of the session at most this long after its last renewal
	Owner     string        // who, for people: shown in Info, at least its first 512 bytes
}

// Session is one tenure at the lock service. It must be safe for concurrent use.
type Session interface {
	// ID identifies the session in Info; unique for ever.
	ID() string
	// TTL is what the server agreed to; it may be shorter or longer than what was asked for.
	TTL() time.Duration
	// Renew moves the session's expiry to now + TTL with ONE call, however many keys are held. It
	// returns ErrSessionLost once the session is over; any other error leaves it open.
	Renew(ctx context.Context) error
	// TryAcquire tries each key once and never waits for a holder. results[i] belongs to wants[i].
	// Wants are sorted by key and distinct. One batch costs one round trip's latency.
	//
	// acquisition is a random id, kept by the caller over its own retries: when the same session
	// asks again with the same id, keys already granted under it must come back as granted with
	// the same token.
	//
	// A non-nil error means that for ALL keys nothing is known, unless it wraps ErrUnreachable,
	// ErrRecovering or ErrSessionLost: then nothing was granted. A single key's trouble goes into
	// its Result.
	TryAcquire(ctx context.Context, acquisition string, wants []Want) (results []Result, err error)
	// Release frees the keys that are still held by this session under the given token, and no
	// others; what is not ours any more is silently left alone. It is idempotent.
	Release(ctx context.Context, held []Held) error
	// Check reads which of the given keys are still held by this session under that token, in one
	// call. It finds keys that were removed one by one (forced release, a deleted key).
	Check(ctx context.Context, held []Held) (still []bool, err error)
	// List returns the holders under prefix in key order, at most limit (≥ 1), after the key
	// "after" ("" = from the start). It must not block the server (no KEYS, no full scan of others'
	// namespaces).
	List(ctx context.Context, prefix, after string, limit int) ([]Info, error)
	// Evict frees key if it is held under token, whoever holds it; false if it was not.
	Evict(ctx context.Context, key string, token Token) (bool, error)
	// Lost is closed when the backend learns by itself that the session is over. It may be nil for
	// backends that learn it from Renew only.
	Lost() <-chan struct{}
	// Close frees everything that the session holds, in one call, and ends it. A session that
	// cannot reach its server expires by itself; Close then returns the error.
	Close(ctx context.Context) error
}

// Want is one key to try for. Later fields (mode, limit, a place in the queue) join it when the
// portable layer offers them; a zero value of those will mean exclusive, without waiting.
type Want struct {
	Key  string // 1 … 200 bytes of printable ASCII without blanks
	Meta string // for people, at most 512 bytes: shown in Info
}

// Result is the outcome for one key. Exactly one of the three holds: Token > 0 (granted),
// Holder != nil (busy), Err != nil (unknown for this key).
type Result struct {
	Token  Token
	Holder *Info
	Err    error
}

// Held names one holding.
type Held struct {
	Key   string
	Token Token
}

// Info describes a holder.
type Info struct {
	Key     string
	Token   Token
	Session string
	Owner   string
	Meta    string
	Since   time.Time // server time; zero if the backend does not know
}

// Caps owns up to what a backend can and cannot do; "scheduler doctor" prints it.
type Caps struct {
	Name        string        // "redis", "zookeeper", "mysql-lease", "mysql-row", "sqlite", "memory"
	FIFO        bool          // waiters are served in order
	EarlyLoss   bool          // the holder is told before another can be granted (absent pauses)
	TrustMargin time.Duration // taken off the TTL beyond 1 %, for clocks that this backend depends on
	Volatile    bool          // the server may forget grants when it restarts
	SingleHost  bool          // excludes only processes of this machine
	SingleProc  bool          // excludes only within this process
	Note        string        // one sentence for people
}
