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
//  6. Wait in turn where the service can ([Queue], Caps.FIFO). A place in a queue ends with its session, and nothing waits
//     for a dead session longer than for its expiry.
//  7. Pass lockstest.Run, with two clients and loss.
//
// # The queue of a key
//
// A key has holders, and a queue of places in the order in which they were taken:
//
//	want ──▶ granted              none waits for the key, and it is free, or held by others that it may hold it with
//	     ──▶ queued ──▶ granted   each place before it was granted, abandoned, or ended with its session
//	     ──▶ busy                 TryAcquire does not wait, and does not overtake what waits
//
// Holders hold a key together if all are shared, or if all name the same Limit and are not more than that; others exclude
// each other. The first place is granted as soon as it may hold the key together with the holders, then the next one: so
// readers do not overtake a writer that waits.
package driver

import (
	"context"
	"errors"
	"time"
)

// Protocol is the edition of what the backends of this module keep at their servers. Clients of different editions do not
// exclude each other, so replicas compare it at the start; it grows with every change that an older client does not
// understand.
const Protocol = 2

// Token is a fencing token: larger for every later grant of the same key on one backend; 0 = none.
type Token int64

var (
	// ErrSessionEnded: the session has ended, for good: it expired, was evicted, or the server forgot
	// it. Nothing is held through it any more.
	ErrSessionEnded = errors.New("lock session ended")
	// ErrRecovering: the server answers but is new, was restarted, failed over or lost data a short time
	// ago, and grants nothing until every lease that it may have forgotten has expired. Until the session of a holder
	// has come back it does not say that its key is held, either: it may have forgotten a release.
	ErrRecovering = errors.New("lock service recovering")
	// ErrUnreachable: nothing was sent. An error after sending must not wrap it.
	ErrUnreachable = errors.New("lock service unreachable")
	// ErrAbandoned: the acquisition was abandoned. Nothing is held or waits under its id.
	ErrAbandoned = errors.New("acquisition abandoned")
	// ErrNotQueued: there is no such place. It was abandoned, or its grant was released or evicted.
	ErrNotQueued = errors.New("not in the queue")
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
	// Renew moves the session's expiry to now + TTL with ONE write, however many keys are held, and reads the sample: in the same
	// call, or on its way at the same time, or by one call more. It returns ErrSessionEnded once the session has ended; any other
	// error leaves it open.
	//
	// evicted reports that keys of the session may be gone: the caller then asks Check. It must be true if one was evicted
	// since the last renewal that was answered, or if one of sample (a few keys that the caller holds, others each time) is
	// not held, since it was deleted at the server by hand.
	Renew(ctx context.Context, sample []Held) (evicted bool, err error)
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
	// Abandon ends an acquisition for the given keys, which may be some of those it asked for: it gives up their places, and
	// frees what was granted under it. So it also settles an answer that was lost. For one ttl the session grants and
	// queues nothing more under that id (ErrAbandoned, in the Result of each key), since a lost request may still arrive. It
	// is idempotent.
	Abandon(ctx context.Context, acquisition string, keys []string) error
	// Queue is how this session waits at the service; nil if it cannot: then package locks asks again and again. Only with
	// Caps.FIFO it is a queue in the order of arrival.
	Queue() Queue
	// Notifier is how this session sends notices to others; nil if the service cannot.
	Notifier() Notifier
	// Release frees the keys that this session holds under the given tokens, and no
	// others, without an error. It is idempotent.
	Release(ctx context.Context, held []Held) error
	// Check reads which of the given keys are still held by this session under that token, in one
	// call. It finds keys that were evicted or deleted.
	Check(ctx context.Context, held []Held) (still []bool, err error)
	// List returns who has the keys under prefix, in key order, after the key "after" ("" = from the start): of each key the
	// holders in the order of their tokens, and then the waiters in the order of their places. It returns limit (≥ 1) keys,
	// and fewer only if there are no more. It must not block the server (no KEYS, no full scan of other namespaces).
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

// Notifier sends notices between the sessions of a namespace. A notice may be lost, so what waits for one also looks now
// and then; several about one topic may arrive as one. It must be safe for concurrent use.
type Notifier interface {
	// Notify tells all sessions of the namespace, this one too, that something has happened about a topic: 1 … 100 bytes of
	// printable ASCII without blanks. It does not wait for them.
	Notify(ctx context.Context, topic string) error
	// Notified listens, until the session ends, and returns where the topics of notices arrive: the same channel each time.
	// They may be lost while nobody reads.
	Notified(ctx context.Context) (<-chan string, error)
}

// Queue is the side of a session that waits in turn. It must be safe for concurrent use.
type Queue interface {
	// Acquire releases the keys of release, and then asks for each key of wants in its order, up to the first one that is
	// not granted at once: there it takes a place in the queue (Result.Queued), or nothing if that Result has an error,
	// and the keys behind it are not asked for (the zero Result). It does not wait for the grant. All this costs one round
	// trip's latency; so does a turn, which releases one holding and asks for the next.
	//
	// The acquisition is as for TryAcquire: asked again under the same id, a key that was granted is granted with the same
	// token, and a place is kept, with the Meta of the last request. After an error the outcome of all keys is unknown, with the exceptions
	// of TryAcquire.
	Acquire(ctx context.Context, acquisition string, release []Held, wants []Want) (results []Result, err error)
	// Granted receives the grants of places. It notifies: a grant may be missing, come twice, or come after it has ended.
	// Look says what holds.
	Granted() <-chan Grant
	// Look tells what became of places, in one call. results[i] belongs to places[i] and is granted, queued, or has an
	// Err that wraps ErrNotQueued. Before it answers it ends the sessions among their holders that have expired, and
	// grants what that frees.
	Look(ctx context.Context, places []Place) (results []Result, err error)
}

// Want is one key to ask for.
type Want struct {
	Key    string // 1 … 200 bytes of printable ASCII without blanks
	Meta   string // at most 512 bytes: shown in Info
	Shared bool   // needs Caps.Shared
	Limit  int    // so many may hold it together; 0 and 1: one. More needs Caps.Limit, and Shared must be false
}

// Place is a place in the queue of a key.
type Place struct{ Acquisition, Key string }

// Grant is the end of a wait.
type Grant struct {
	Place
	Token Token
}

// Result is the outcome for one key, exactly one of: Token > 0 (granted), Queued, Holder != nil (busy), Err != nil (unknown
// for this key), or none of them (not asked for). While it is queued, Holder is one that it waits for.
type Result struct {
	Token  Token
	Queued bool
	Holder *Info
	Err    error
}

// Held names one holding. A session may have several of one key, under different tokens, if they may hold together.
type Held struct {
	Key   string
	Token Token
}

// Info describes a holder, or one that waits.
type Info struct {
	Key       string
	Token     Token // 0 while it waits
	Place     int   // 0: it holds the key; 1: it is the next one to be granted
	Session   string
	Owner     string
	Meta      string
	Shared    bool
	Limit     int           // 0 and 1: one holder
	Since     time.Time     // since when it holds the key, or waits; server time; zero if the backend does not know
	Remaining time.Duration // until its session expires if it is not renewed; zero if the backend does not know
}

// Caps says what a backend can and cannot do; "scheduler doctor" prints it.
type Caps struct {
	Name        string        // "redis", "quorum", "zookeeper", "mysql-lease", "mysql-row", "sqlite", "memory"
	FIFO        bool          // waiters are served in the order in which they came
	Shared      bool          // keys can be shared
	Limit       bool          // keys can have a limit: semaphores
	Notices     bool          // its sessions send notices to each other: Session.Notifier
	EarlyLoss   bool          // the holder learns of a loss before another grant (without pauses)
	TrustMargin time.Duration // subtracted from the TTL beyond 1 %, for clocks that this backend depends on
	Volatile    bool          // the server may forget grants when it restarts; with EarlyLoss it grants nothing then until those have expired
	SingleHost  bool          // excludes only processes of this machine
	SingleProc  bool          // excludes only within this process
	Note        string        // one sentence
}
