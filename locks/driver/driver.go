// Package driver is the contract of a lock backend. Programs use package locks, which implements renewal, the trust
// window, loss, reentrancy, retries and waiting once for all backends.
//
// To write a backend:
//
//  1. Open returns a [Session]: the only thing of a backend that can expire. Every lock held through it
//     ends with it. Never renew single keys.
//  2. The server decides expiry, by its own clock. Never compare the process clock with a
//     stored time.
//  3. Mint a [Token] with each grant that is larger than every earlier one of the same key, also
//     after the key was released, expired, or the server restarted: max(last+1, server time in µs)
//     or a transaction number. Keep no state for a key without holders, except one
//     high-water mark per namespace.
//  4. Busy, unknown and lost are three outcomes. Busy is a Result. If the server may have acted,
//     return an error that wraps none of the sentinels below. Never guess.
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
	// ErrSessionEnded: the session has ended, for good: it expired, was evicted, or the server forgot
	// it. Nothing is held through it any more.
	ErrSessionEnded = errors.New("lock session ended")
	// ErrRecovering: the server answers but is new, was restarted, failed over or lost data a short time
	// ago, and grants nothing until every lease that it may have forgotten has expired.
	ErrRecovering = errors.New("lock service recovering")
	// ErrUnreachable: nothing was sent. An error after sending must not wrap it.
	ErrUnreachable = errors.New("lock service unreachable")
)

// Driver opens sessions. It must be safe for concurrent use.
type Driver interface {
	// Open starts a session. It must fail, and not wait for ever, if the server cannot be
	// reached: the error names the address and the cause. After ErrRecovering the caller tries again
	// later.
	Open(ctx context.Context, o Open) (Session, error)
	// Valid is the error of the arguments of New, found without a call to the server; Open returns the same one.
	// locks.New calls it first: the New of a backend returns no error.
	Valid() error
	// Caps says what this backend guarantees.
	Caps() Caps
	// Close frees what the driver opened; it must not close what the program passed to it.
	Close() error
}

// Open has the parameters of a session.
type Open struct {
	Namespace string        // all keys live below it; other namespaces must not be touched
	TTL       time.Duration // at least 1 s; the server must expire the session at most this long after its last renewal
	Owner     string        // shown in Info, at least its first 512 bytes
}

// Session is one session at the lock service. It must be safe for concurrent use.
type Session interface {
	// ID identifies the session in Info; unique for ever.
	ID() string
	// TTL is what the server agreed to; it may differ from what was asked for.
	TTL() time.Duration
	// Renew moves the session's expiry to now + TTL with ONE call, however many keys are held. It
	// returns ErrSessionEnded once the session has ended; any other error leaves it open.
	Renew(ctx context.Context) error
	// TryAcquire tries each key once and does not wait for a holder. results[i] belongs to wants[i].
	// Wants are sorted by key and distinct. One batch costs one round trip's latency.
	//
	// acquisition is a random id of letters and digits, which the caller keeps for its retries: if the same session
	// asks again with the same id, keys already granted under it must be returned as granted with
	// the same token.
	//
	// After an error the outcome of ALL keys is unknown, unless it wraps ErrUnreachable,
	// ErrRecovering or ErrSessionEnded: then nothing was granted. An error of a single key is in
	// its Result.
	TryAcquire(ctx context.Context, acquisition string, wants []Want) (results []Result, err error)
	// Release frees the keys that this session holds under the given tokens, and no
	// others, without an error. It is idempotent.
	Release(ctx context.Context, held []Held) error
	// Check reads which of the given keys are still held by this session under that token, in one
	// call. It finds keys that were evicted or deleted.
	Check(ctx context.Context, held []Held) (still []bool, err error)
	// List returns the holders under prefix in key order, at most limit (≥ 1), after the key
	// "after" ("" = from the start). It must not block the server (no KEYS, no full scan of other
	// namespaces).
	List(ctx context.Context, prefix, after string, limit int) ([]Info, error)
	// Evict frees key if any session holds it under token; false if none does.
	Evict(ctx context.Context, key string, token Token) (bool, error)
	// Ended is closed when the backend learns of the end of the session without a call. It may be nil for
	// backends that learn it from Renew only.
	Ended() <-chan struct{}
	// Close frees everything that the session holds, in one call, and ends it. A session that
	// cannot reach its server expires; Close then returns the error.
	Close(ctx context.Context) error
}

// Want is one key to try.
type Want struct {
	Key  string // 1 … 200 bytes of printable ASCII without blanks
	Meta string // at most 512 bytes: shown in Info
}

// Result is the outcome for one key, exactly one of: Token > 0 (granted),
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

// Caps says what a backend can and cannot do; "scheduler doctor" prints it.
type Caps struct {
	Name        string        // "redis", "zookeeper", "mysql-lease", "mysql-row", "sqlite", "memory"
	FIFO        bool          // waiters are served in order
	EarlyLoss   bool          // the holder learns of a loss before another grant (without pauses)
	TrustMargin time.Duration // subtracted from the TTL beyond 1 %, for clocks that this backend depends on
	Volatile    bool          // the server may forget grants when it restarts
	SingleHost  bool          // excludes only processes of this machine
	SingleProc  bool          // excludes only within this process
	Note        string        // one sentence
}
