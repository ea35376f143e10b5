package config

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/lockstep-scheduler/lockstep/internal/limits"
	"github.com/lockstep-scheduler/lockstep/internal/syskeys"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/locks"
)

// lockOfKeys are the keys of a lock that is more than its key.
var lockOfKeys = schema[jobs.Lock]{
	"key":     field((*reader).lockKey, func(l *jobs.Lock) *string { return &l.Key }),
	"mode":    choiceField([]jobs.LockMode{jobs.LockExclusive, jobs.LockShared}, func(l *jobs.Lock) *jobs.LockMode { return &l.Mode }),
	"limit":   numberField(1, limits.Holders, func(l *jobs.Lock) *int { return &l.Limit }),
	"on_lost": choiceField([]jobs.LockLost{jobs.LockCancels, jobs.LockContinues}, func(l *jobs.Lock) *jobs.LockLost { return &l.OnLost }),
}

// locksField reads a list of locks: each is its key, or a map.
func locksField[T any](place func(*T) *[]jobs.Lock) read[T] {
	return func(r *reader, n *yaml.Node, into *T) {
		var all []jobs.Lock
		r.items(n, func(item *yaml.Node) {
			l, ok := r.lock(item)
			if !ok {
				r.doubtful[pathText(r.path)+".key"] = true
			}
			all = append(all, l) // also one that is refused: problems name their place in the list
		})
		*place(into) = all
	}
}

const (
	lockForm = "a key, or a map with key, limit, mode, on_lost"
	lockHint = "write orders-db, or {key: orders-db, limit: 3}"
)

// lock reads one lock; false if what is wrong with its key was reported.
func (r *reader) lock(n *yaml.Node) (l jobs.Lock, ok bool) {
	switch item := deref(n); {
	case item.Kind == yaml.MappingNode:
		known := object(r, n, lockOfKeys, &l)
		if known && r.find(n, "key") == nil {
			r.within("key", func() { r.fail(n, "is missing", "it is the name of the lock, as in {key: orders-db, limit: 3}") })
		}
		return l, l.Key != ""
	case item.Kind == yaml.SequenceNode:
		r.fail(n, "must be "+lockForm, lockHint)
		return l, false
	case empty(n):
		r.fail(n, "is empty; a lock is "+lockForm, lockHint)
		return l, false
	}
	l.Key, ok = r.lockKey(n)
	return l, ok
}

// fieldInKey is something in {{ }}. Package jobs says what may be there.
var fieldInKey = regexp.MustCompile(`\{\{[^{}]*\}\}`)

// lockKey reads the key of a lock as far as a message of package jobs would not help: it shows a long key.
func (r *reader) lockKey(n *yaml.Node) (string, bool) {
	const hint = "write the name of the lock, as in orders-db"
	if n := deref(n); n.Kind == yaml.ScalarNode && empty(n) {
		r.fail(n, "is empty", hint)
		return "", false
	}
	key, ok := r.text(n)
	if !ok {
		return "", false
	}
	if key == "" { // of a variable
		r.fail(n, quote(n)+" is empty", hint)
		return "", false
	}
	own := fieldInKey.ReplaceAllString(strings.TrimPrefix(key, syskeys.User), "")
	if length := utf8.RuneCountInString(own); length > syskeys.MaxKey-len(syskeys.User) {
		r.fail(n, fmt.Sprintf("%s is too long: it has %d characters", quote(n), length),
			fmt.Sprintf("a key has at most %d, without %s in front", syskeys.MaxKey-len(syskeys.User), syskeys.User))
		return "", false
	}
	return key, true
}

// caps are what jobs may ask of the lock service; no more of locks.Caps is set. The backends say the same, which a test compares:
// with them, each program that reads a configuration would compile the clients of all.
func (l Lock) caps() locks.Caps {
	switch {
	case l.Driver == MySQL && l.MySQL.Mode == "row":
		return locks.Caps{Name: "mysql-row"}
	case l.Driver == Quorum:
		return locks.Caps{Name: "quorum", Shared: true}
	}
	return locks.Caps{Name: l.Driver, Shared: true, Limit: true}
}

// heldLock is a lock of a job or pool.
type heldLock struct {
	jobs.Lock
	owner string // "jobs.backup"
	path  string // "jobs.backup.locks[0]"
}

// kind is how a lock is held together with others, and the key that says so; "" for one that is held alone.
func (l heldLock) kind() (text, path string) {
	switch {
	case l.Mode == jobs.LockShared:
		return "is shared", l.path + ".mode"
	case l.Limit > 1:
		return fmt.Sprintf("has limit %d", l.Limit), l.path + ".limit"
	}
	return "", ""
}

// checkJobLocks refuses locks that the lock service cannot hold so, as scheduler.New does, and warns about those that do not go
// together.
func (r *reader) checkJobLocks() {
	set := r.c.Set
	var together []heldLock
	add := func(owner string, all []jobs.Lock) {
		for i, l := range all {
			held := heldLock{l, owner, fmt.Sprintf("%s.locks[%d]", owner, i)}
			if kind, _ := held.kind(); kind != "" {
				together = append(together, held)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(set.Pools)) {
		pool := set.Pools[name]
		add("pools."+name, pool.Locks)
		if pool.LockWait > 0 && len(pool.Locks) == 0 {
			r.advise("pools."+name+".lock_wait", "has no effect: the pool has no locks", "write locks, or remove it; for locks of a job, write it in the job")
		}
	}
	for _, name := range r.jobs.order { // as they were read
		job := set.Jobs[name]
		add("jobs."+name, job.Locks)
		if job.LockWait == 0 || len(job.Locks) > 0 {
			continue
		}
		if ofPool, _ := set.LocksOf(name); len(ofPool) == 0 {
			r.advise("jobs."+name+".lock_wait", "has no effect: the job has no locks", "write locks, or remove it")
		}
	}
	r.checkHoldable(together)
	r.adviseMixed(together)
}

func (r *reader) checkHoldable(together []heldLock) {
	caps, other := r.c.Lock.caps(), "choose another lock.driver"
	if r.c.Lock.Driver == MySQL {
		other = "write lock.mysql.mode: lease"
	}
	for _, l := range together {
		_, path := l.kind()
		switch {
		case l.Mode == jobs.LockShared && !caps.Shared:
			r.refuse(path, fmt.Sprintf("the lock service, %s, has no shared locks", caps.Name), "remove mode, or "+other)
		case l.Mode != jobs.LockShared && !caps.Limit:
			r.refuse(path, fmt.Sprintf("the lock service, %s, has no limits", caps.Name), "remove limit, or "+other)
		}
	}
}

// adviseMixed warns where one key is held in two ways that are meant to be together. An exclusive holder beside them is not
// mistaken: it keeps all others away.
func (r *reader) adviseMixed(together []heldLock) {
	if !mixed(together) { // positions of 100,000 take a while
		return
	}
	places := make(map[string]position, len(together))
	for _, l := range together {
		places[l.path] = r.locate(l.path)
	}
	slices.SortStableFunc(together, func(a, b heldLock) int { // as they are written
		p, q := places[a.path], places[b.path]
		return cmp.Or(cmp.Compare(p.file.order, q.file.order), cmp.Compare(p.line, q.line), cmp.Compare(p.column, q.column))
	})
	seen := map[string]heldLock{}
	for _, l := range together {
		key := l.known()
		if key == "" {
			continue
		}
		first, known := seen[key]
		if !known {
			seen[key] = l
			continue
		}
		there, _ := first.kind()
		here, path := l.kind()
		if there != here {
			p := places[first.path]
			r.advise(path, fmt.Sprintf("the same key %s in %s (%s:%d:%d), and %s here: these holders exclude each other", there, first.owner, p.file.name, p.line, p.column, here),
				"write the same in both")
		}
	}
}

// known is the key of the lock; "" if it was refused, or if the payload decides.
func (l heldLock) known() string {
	key := strings.TrimPrefix(l.Key, syskeys.User)
	if strings.Contains(key, "{{") {
		return ""
	}
	return key
}

// mixed reports whether one key is held in two ways.
func mixed(all []heldLock) bool {
	kinds := map[string]string{}
	for _, l := range all {
		key := l.known()
		kind, _ := l.kind()
		if was, has := kinds[key]; has && key != "" && was != kind {
			return true
		}
		kinds[key] = kind
	}
	return false
}
