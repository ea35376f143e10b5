package locks

import (
	"fmt"
	"strings"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// Token is a fencing token: larger for every later grant of the same key on one backend; 0 = none.
// Pass it to the resource that the lock guards, which must refuse smaller ones: that fences a
// holder that was paused for longer than its lease.
type Token = driver.Token

// Info describes a holder.
type Info = driver.Info

// Caps says what a backend guarantees.
type Caps = driver.Caps

// Request asks for one key, which has one holder at a time.
type Request struct {
	// Key is 1 to 200 printable ASCII characters without blanks. By convention the scheduler's own
	// keys start with "sys/", all others with "user/".
	Key string
	// Owner, if not empty, makes the hold reentrant: it names what holds the key within this process. A request of the same
	// Owner shares its hold of the same key in the same Locker: the same token, counted, without a call; the last release
	// frees it. Options.Owner is the process, which Info shows.
	Owner string
	// Meta is shown in Info: at most 512 bytes.
	Meta string
}

// Attempt is the outcome of one Request, one of these:
//   - granted: Lease is set.
//   - busy: Err matches ErrBusy, and Holder is set.
//   - not granted, for another reason: Err matches ErrRecovering or ErrUnavailable.
//   - unknown: Err matches ErrUnknown.
type Attempt struct {
	Lease  *Lease
	Holder *Info
	Err    error
}

const (
	maxKey  = 200
	maxMeta = 512
)

func (r Request) check() error {
	switch {
	case !printable(r.Key, maxKey):
		return fmt.Errorf("key %.210q: must be 1 to %d printable ASCII characters without blanks", r.Key, maxKey)
	case len(r.Meta) > maxMeta:
		return fmt.Errorf("key %s: meta has %d bytes, at most %d are allowed", r.Key, len(r.Meta), maxMeta)
	}
	return nil
}

func printable(s string, most int) bool {
	return s != "" && len(s) <= most && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}
