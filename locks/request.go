package locks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/limits"
	"github.com/lockstep-scheduler/lockstep/internal/syskeys"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// Token is a fencing token: larger for every later grant of the same key on one backend; 0 = none.
// Pass it to the resource that the lock guards, which must refuse smaller ones: that fences a
// holder that was paused for longer than its lease.
type Token = driver.Token

// Info describes a holder, or one that waits.
type Info = driver.Info

// Caps says what a backend guarantees.
type Caps = driver.Caps

// Mode is how a key is held.
type Mode uint8

const (
	// Exclusive: the key has no other holder.
	Exclusive Mode = iota
	// Shared: the key may have other holders, all shared. It needs Caps.Shared.
	Shared
)

// Request asks for one key. Holders hold a key together only if all ask for the same Mode and Limit.
type Request struct {
	// Key names the lock: printable ASCII characters without blanks. All keys start with "user/", which is put in front if it
	// is missing, so that "a" and "user/a" are one key; with it a key has at most 200 characters. Keys that start with "sys/"
	// are the scheduler's, and refused.
	Key string
	// Mode is Exclusive if not set. A hold does not change its mode: release it, and ask again.
	Mode Mode
	// Limit is how many may hold the key together, for a semaphore, at most MaxLimit; 0 and 1: one. More needs Caps.Limit, and Mode must be
	// Exclusive. Tokens order holders that exclude each other: under a Limit they do not fence.
	Limit int
	// Owner, if not empty, makes the hold reentrant: it names what holds the key within this process. A request of the same
	// Owner, Mode and Limit shares its hold of the same key in the same Locker: the same token, counted, without a call; the
	// last release frees it. Options.Owner is the process, which Info shows.
	Owner string
	// Meta is shown in Info: at most 512 bytes.
	Meta string
	// MaxHold, if not 0, is how long the Lease may be held: then this process gives it back, and the lease ends with a cause
	// that matches ErrReleased. The time runs from the end of the call, so not while Acquire waits for other keys, and also
	// while the machine sleeps. A process that is stopped by then gives it back when it continues, or its session expires.
	MaxHold time.Duration
}

// Attempt is the outcome of one Request, one of these:
//   - granted: Lease is set.
//   - busy: Err matches ErrBusy. Holder is one of those that have the key; nil if others of this Locker wait for it and its holder is
//     not known.
//   - not granted, for another reason: Err matches ErrRecovering or ErrUnavailable.
//   - unknown: Err matches ErrUnknown.
type Attempt struct {
	Lease  *Lease
	Holder *Info
	Err    error
}

// MaxLimit is the largest Request.Limit.
const MaxLimit = limits.Holders

const (
	maxKey  = syskeys.MaxKey
	maxMeta = 512
)

// fullKey returns the key as the service holds it.
func fullKey(ctx context.Context, key string) (string, error) {
	return syskeys.Full(key, syskeys.Allowed(ctx))
}

func (r Request) check() error {
	switch {
	case len(r.Meta) > maxMeta:
		return fmt.Errorf("key %s: meta has %d bytes, at most %d are allowed", r.Key, len(r.Meta), maxMeta)
	case r.MaxHold < 0:
		return fmt.Errorf("key %s: max hold %v: must be positive, or 0 for no limit", r.Key, r.MaxHold)
	case r.Mode > Shared:
		return fmt.Errorf("key %s: mode %d: must be Exclusive or Shared", r.Key, r.Mode)
	case r.Limit < 0:
		return fmt.Errorf("key %s: limit %d: must be 1 or more, or 0 for one holder", r.Key, r.Limit)
	case r.Limit > MaxLimit:
		return fmt.Errorf("key %s: limit %d: must be %d at most", r.Key, r.Limit, MaxLimit)
	case r.Mode == Shared && r.Limit > 1:
		return fmt.Errorf("key %s: shared with a limit of %d: must be one of the two", r.Key, r.Limit)
	}
	return nil
}

// kind is the Mode and the Limit of a request. Holders of one kind may hold a key together, unless it is exclusive.
type kind struct {
	mode  Mode
	limit int // at least 1
}

func (r Request) kind() kind { return kind{mode: r.Mode, limit: max(r.Limit, 1)} }

// exclusive reports whether holders of this kind exclude each other.
func (k kind) exclusive() bool { return k.mode == Exclusive && k.limit == 1 }

// supported returns an error if the backend cannot hold a key so.
func (k kind) supported(c Caps) error {
	switch {
	case k.mode == Shared && !c.Shared:
		return fmt.Errorf("%s has no shared mode: %w", c.Name, errors.ErrUnsupported)
	case k.limit > 1 && !c.Limit:
		return fmt.Errorf("%s has no limit: %w", c.Name, errors.ErrUnsupported)
	}
	return nil
}

func (r Request) want() driver.Want {
	return driver.Want{Key: r.Key, Meta: r.Meta, Shared: r.Mode == Shared, Limit: r.Limit}
}

func printable(s string, most int) bool { return syskeys.Printable(s, most) }
