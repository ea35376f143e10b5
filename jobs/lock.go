package jobs

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/limits"
	"github.com/lockstep-scheduler/lockstep/internal/naming"
	"github.com/lockstep-scheduler/lockstep/internal/syskeys"
)

// LockMode is how a task holds a lock.
type LockMode string

const (
	LockExclusive LockMode = "exclusive" // alone, or with so many others as Limit says
	LockShared    LockMode = "shared"    // with any number of others that share it
)

// LockLost says what becomes of an attempt whose lock was lost while it ran.
type LockLost string

const (
	LockCancels   LockLost = "cancel"   // the attempt is ended, and has failed
	LockContinues LockLost = "continue" // the attempt goes on; the log says so, and [HeldLock].Done tells the handler
)

// Lock is a lock of the lock service that a task holds while it runs: no attempt starts without it. It keeps tasks away from
// each other, whatever their jobs, and from what else locks the key: "scheduler locks exec", and programs that use package locks.
type Lock struct {
	// Key names the lock as a [locks.Request] does: "orders-db" and "user/orders-db" are one key. It may have fields of the
	// payload: "tenant-{{.payload.tenant}}", "{{.payload.order.id}}". Such a field must be a string, a number or a boolean;
	// else, and if the key is none then, the task fails before it starts, with reason.LockKey.
	//
	// [locks.Request]: https://pkg.go.dev/github.com/lockstep-scheduler/lockstep/locks#Request
	Key    string
	Mode   LockMode // default exclusive
	Limit  int      // how many may hold it together; default 1. More needs Mode exclusive
	OnLost LockLost // default cancel
}

// HeldLock is a lock that an attempt holds.
type HeldLock struct {
	Key   string // as it was written, with the fields of the payload filled in
	Token int64  // of the lock service: larger for each later holder, if holders exclude each other
	// Done is closed once the lock is no longer held. With [LockCancels] the attempt's context ends, too.
	Done <-chan struct{}
}

func (l Lock) withDefaults() Lock {
	l.Mode = cmp.Or(l.Mode, LockExclusive)
	l.Limit = cmp.Or(l.Limit, 1)
	l.OnLost = cmp.Or(l.OnLost, LockCancels)
	return l
}

func locksWithDefaults(locks []Lock) []Lock {
	if len(locks) == 0 {
		return nil
	}
	all := slices.Clone(locks)
	for i := range all {
		all[i] = all[i].withDefaults()
	}
	return all
}

// LocksOf are the locks that a job's tasks hold while they run, and how long they may wait for them; 0: without limit. They are the
// job's own, and those of its pool where the job runs the pool's handler: a job with a handler of its own does not do what the pool
// does. Of two with one key the job's holds.
func (s Set) LocksOf(job string) (all []Lock, wait time.Duration) {
	j := s.Jobs[job]
	own := len(j.Locks)
	all, wait = slices.Clone(j.Locks), j.LockWait
	if pool := s.Pools[cmp.Or(j.Pool, naming.DefaultPool)]; j.Handler == nil && len(pool.Locks) > 0 {
		wait = cmp.Or(wait, pool.LockWait)
		for _, l := range pool.Locks {
			if !slices.ContainsFunc(all[:own], l.sameKey) {
				all = append(all, l)
			}
		}
	}
	return locksWithDefaults(all), wait
}

// sameKey reports whether two locks have one key, as it is written.
func (l Lock) sameKey(other Lock) bool {
	return strings.TrimPrefix(l.Key, syskeys.User) == strings.TrimPrefix(other.Key, syskeys.User)
}

// payloadField is a field of the payload in a key.
var payloadField = regexp.MustCompile(`\{\{ *\.payload((?:\.[a-zA-Z0-9_-]+)+) *\}\}`)

// ForPayload returns the lock of a task with that payload: fields of the payload are filled in. The error says which field, or what
// about the key, is wrong.
func (l Lock) ForPayload(payload json.RawMessage) (Lock, error) {
	if strings.Contains(l.Key, "{{") {
		var err error
		if l.Key, err = fill(l.Key, payload); err != nil {
			return l, err
		}
	}
	_, err := syskeys.Full(l.Key, false)
	return l, err
}

// fill replaces the fields of a key.
func fill(key string, payload json.RawMessage) (string, error) {
	var whole any
	if len(payload) > 0 {
		d := json.NewDecoder(bytes.NewReader(payload))
		d.UseNumber() // a number is in the key as it is in the payload
		if err := d.Decode(&whole); err != nil {
			return "", fmt.Errorf("key %.80q: the payload cannot be read: %w", key, err)
		}
	}
	var wrong error
	filled := payloadField.ReplaceAllStringFunc(key, func(text string) string {
		path := payloadField.FindStringSubmatch(text)[1]
		value, there := whole, true
		for name := range strings.SplitSeq(path[1:], ".") {
			of, _ := value.(map[string]any)
			value, there = of[name]
		}
		switch v := value.(type) {
		case string:
			if v == "" { // all tasks without a value would share one key
				wrong = cmp.Or(wrong, fmt.Errorf("key %.80q: %s of the payload is empty", key, path[1:]))
			}
			return v
		case json.Number:
			return v.String()
		case bool:
			return fmt.Sprint(v)
		case nil:
			missing := fmt.Errorf("key %.80q: the payload has no %s", key, path[1:])
			if there {
				missing = fmt.Errorf("key %.80q: %s of the payload is null", key, path[1:])
			}
			wrong = cmp.Or(wrong, missing)
		default:
			wrong = cmp.Or(wrong, fmt.Errorf("key %.80q: %s of the payload is a list or an object; a key takes a text, a number or a boolean", key, path[1:]))
		}
		return ""
	})
	return filled, wrong
}

// CheckLocks says which of the locks of a pool, or of [Set.LocksOf], have no key with a payload: nil, or joined [*FieldError]s. A task that has
// it all the same fails before it starts.
func CheckLocks(all []Lock, payload json.RawMessage) error {
	var p problems
	for _, l := range all {
		if !payloadField.MatchString(l.Key) {
			continue
		}
		if _, err := l.ForPayload(payload); err != nil {
			p.add("payload", "%s; correct the payload: the task needs the key of each lock", err)
		}
	}
	return p.err()
}

// locks checks the locks of a job or pool.
func (p *problems) locks(path string, locks []Lock, wait time.Duration) {
	p.duration(path+".lock_wait", wait)
	if len(locks) > limits.Locks {
		p.add(path+".locks", "%d locks, at most %d are allowed", len(locks), limits.Locks)
		return
	}
	for i, l := range locks {
		at := fmt.Sprintf("%s.locks[%d]", path, i)
		l = l.withDefaults()
		p.key(at+".key", l.Key)
		p.oneOf(at+".mode", string(l.Mode), string(LockExclusive), string(LockShared))
		p.within(at+".limit", l.Limit, 1, limits.Holders)
		p.oneOf(at+".on_lost", string(l.OnLost), string(LockCancels), string(LockContinues))
		if l.Mode == LockShared && l.Limit > 1 {
			p.add(at+".limit", "a shared lock has no limit; remove limit, or mode")
		}
		if first := slices.IndexFunc(locks[:i], l.sameKey); first >= 0 {
			p.add(at+".key", "is that of locks[%d], too; remove one", first)
		}
	}
}

// key checks the key of a lock as far as no payload decides.
func (p *problems) key(path, key string) {
	plain := payloadField.ReplaceAllString(key, "x")
	if strings.Contains(plain, "{{") || strings.Contains(plain, "}}") {
		p.add(path, "%.80q has something else in {{ }} than a field of the payload; write it as in tenant-{{.payload.tenant}}", key)
		return
	}
	if _, err := syskeys.Full(plain, false); err != nil {
		problem := err.Error()
		if plain != key {
			problem = strings.Replace(problem, fmt.Sprintf("%.210q", plain), fmt.Sprintf("%.210q", key), 1)
		}
		p.add(path, "%s", problem)
	}
}

// keysOf checks that the payload of a job has the fields that the keys of its locks want.
func (p *problems) keysOf(path, name string, s Set) {
	job := s.Jobs[name]
	all, _ := s.LocksOf(name)
	if len(all) == 0 {
		return
	}
	payload, err := job.EncodePayload()
	if err != nil {
		return // reported
	}
	for i, l := range all {
		if !payloadField.MatchString(l.Key) {
			continue
		}
		if _, err := l.ForPayload(payload); err == nil {
			continue
		} else if i < len(job.Locks) {
			p.add(fmt.Sprintf("%s.locks[%d].key", path, i), "%s", err)
		} else {
			p.add(path+".payload", "a lock of its pool %s: %s", cmp.Or(job.Pool, naming.DefaultPool), err)
		}
	}
}
