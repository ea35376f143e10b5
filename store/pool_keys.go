package store

import (
	"math"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// looksAtOnce is how many keys a claim looks at, besides those of the candidates that it finds anyway.
const looksAtOnce = 64

// keyLook is how many ready tasks a claim reads at least in a pool with limits by key or kind: tasks whose key is full may be in front of
// one that has room, and a worker asks for one task at a time.
const keyLook = 16

// lookAgain is when a key is looked at that was full. The end of one of its tasks has it looked at at once; but a transaction that was
// recording one when the first task began to wait may not have seen that. So the first looks come soon.
var lookAgain = []time.Duration{20 * time.Millisecond, time.Second, 3 * time.Second, 10 * time.Second, lookMost / 2}

// lookElsewhere is when a key is looked at again whose tasks this replica cannot run: other keys have their turn meanwhile.
const lookElsewhere = 200 * time.Millisecond

// lookMost is how far ahead look_at is at most, and some: of a key with a later one the clock was set back since.
const lookMost = time.Minute

// poolKeys is what a claim knows of the keys of a pool that has limits or an order by them. A kind with limits is a key too, see ofKind: its
// tasks have to get past both, and wait for one of them at a time. The pool's row is locked: no other claim changes it.
//
// Others set look_at to the time of an end, where tasks wait for the key, and keep the row locked until their transaction has ended the key's
// tasks. A claim locks the rows of the keys that it looks at before it counts running tasks, and leaves those alone that another transaction has
// locked. So the end of a task is either counted, or comes after this claim and has the key looked at again; and no claim waits for an end. The
// look_at of a row that is not locked is written only if it was 0, which no end changes.
//
// nil is for a pool without, and without what has waited since it had some.
type poolKeys struct {
	is      perKey
	left    bool // there is none any more, and tasks may wait for their keys still: all start
	ordered bool
	fair    *fairness
	now     time.Time // the database's, under the lock of the pool's row
	told    time.Time // when this process got it
	none    bool      // the pool has no rows of keys: nothing waits for one, and all buckets are full
	rows    map[string]*keyRow
	looked  []string // keys whose time has come, sorted
	beyond  bool     // there may be more of them
	locked  bool     // rows are locked, which come after those of jobs
	new     []string // with an order: tasks that start and have no place yet, as they were enqueued before the pool had one
}

// keyRow is a row of {keys}, or what a key without one would have, and what of the key this transaction may use.
type keyRow struct {
	known   bool // its row was read; of the others only how many of their tasks run
	locked  bool
	limits  ledger.Limits
	bucket  ledger.Bucket
	lookAt  int64
	looks   int
	pass    int64
	changed bool
	spent   bool          // starts have taken from the bucket
	was     ledger.Bucket // the bucket as it is in the row
	running int           // 0, too, where it is less than what the limit lets run beside all that this transaction may start
	first   string        // with an order: the one task that may; "": none waits or runs yet
	held    bool          // by that one, which has started, or waits for its time or its locks
	read    bool          // some of the tasks that wait for it were read
	rest    bool          // and more may wait
	waits   bool          // with locked: some tasks wait for it
	waiting int           // with read, and no scope: how many wait for it, counted up to one more than were to be read
	leaving int           // how many of these wait for it no more
	behind  bool          // a task of this claim waits for it from now on
}

// keys are what a claim goes by that has read the row.
func (m *poolModel) keys() *poolKeys {
	holds := m.holds()
	is := keysOf(holds)
	if !is.some() && !m.KeysLeft {
		return nil
	}
	k := &poolKeys{is: is, left: !is.some(), ordered: is.order == string(jobs.OrderKey), rows: map[string]*keyRow{}}
	if k.ordered { // also of those that were claimed before the pool had an order
		k.is.MaxRunning = 1
	}
	if is.fair {
		k.fair = &fairness{weights: holds.Fair.Weights, pass: m.KeyPass}
	}
	return k
}

// room is how many tasks of a key may still become running.
func (k *poolKeys) room(r *keyRow) int {
	return max(0, min(r.places(), r.limits.Starts(r.bucket, k.now)))
}

// places is how many tasks its max_running lets become running; at most 0: none.
func (r *keyRow) places() int {
	if r.limits.MaxRunning == 0 {
		return math.MaxInt
	}
	return r.limits.MaxRunning - r.running
}

// kindOf is the key of a task's kind, if that has limits.
func (k *poolKeys) kindOf(r *openTask) (key string, limited bool) {
	if k == nil || r.Job != "" || k.is.kinds == nil {
		return "", false
	}
	_, limited = k.is.kinds[r.Kind]
	return ofKind + r.Kind, limited
}

// ignores reports whether a task starts whatever the others of its key do: it has none, or is a job's. Tasks without a key share a pool as
// those of one key do.
func (k *poolKeys) ignores(r *openTask) bool {
	return k == nil || r.Job != "" || r.Key == "" && k.fair == nil
}

func (k *poolKeys) row(key string) *keyRow {
	r := k.rows[key]
	if r == nil {
		r = &keyRow{limits: k.is.of(key)}
		k.rows[key] = r
	}
	return r
}

// lets reports whether a task may start as far as its kind and its key say.
func (k *poolKeys) lets(r *openTask) bool {
	return k.letsKind(r) && k.letsKey(r)
}

func (k *poolKeys) letsKind(r *openTask) bool {
	kind, limited := k.kindOf(r)
	if !limited {
		return true
	}
	row := k.rows[kind]
	return row != nil && k.room(row) > 0
}

// shut reports whether nothing can be said of a candidate in this claim: a row that its start would write is locked by another transaction,
// which ends a task of the same key or kind.
func (k *poolKeys) shut(r *openTask) bool {
	if k == nil {
		return false
	}
	if kind, limited := k.kindOf(r); limited && k.writesLate(k.row(kind)) {
		return true
	}
	return !k.ignores(r) && k.writesLate(k.row(r.Key))
}

// writesLate reports whether the start of a task writes the row of its key, and that has to be locked first, since others may write it.
func (k *poolKeys) writesLate(r *keyRow) bool {
	return r.lookAt > 0 && !r.locked && (k.fair != nil || r.limits.Rate != (jobs.Rate{}))
}

func (k *poolKeys) letsKey(r *openTask) bool {
	if k.ignores(r) {
		return true
	}
	row := k.rows[r.Key]
	return row != nil && k.room(row) > 0 && (!k.ordered || r.Key == "" || row.first == "" || row.first == r.ID)
}

// start takes a start from the kind and the key of a task.
func (k *poolKeys) start(r *openTask) {
	if kind, limited := k.kindOf(r); limited {
		row := k.rows[kind]
		if row.running++; row.limits.Rate != (jobs.Rate{}) {
			row.bucket, row.spent = row.limits.Started(row.bucket, k.now, 1), true
		}
	}
	if k.ignores(r) {
		return
	}
	row := k.rows[r.Key]
	k.fair.start(r.Key, row)
	if row.running++; k.ordered && r.Key != "" {
		if row.first == "" {
			k.new = append(k.new, r.ID)
		}
		row.first, row.held = r.ID, true
	}
	if row.limits.Rate != (jobs.Rate{}) {
		row.bucket, row.spent = row.limits.Started(row.bucket, k.now, 1), true
	}
}

// wait has a task wait for its kind, if that does not let it start, else for its key. It reports whether it does so already.
func (k *poolKeys) wait(r *openTask) (already bool) {
	on := r.Key
	if !k.letsKind(r) {
		on, _ = k.kindOf(r)
	}
	if r.row == rowKeyed && r.on == on {
		return true
	}
	k.leave(r)
	r.on = on
	row := k.rows[on]
	row.behind = true
	if row.first == "" {
		row.first = r.ID
	}
	return false
}

// leave notes that a task waits for its key no more. In its order it keeps its place.
func (k *poolKeys) leave(r *openTask) {
	if r.row == rowKeyed && r.place != nil && r.place.Place == 0 {
		k.rows[r.place.TaskKey].leaving++
	}
}

// forgetLeft ends that a pool has keys, if it has no limits by key any more and no task waits for one.
//
// Index: primary key of pools; keys_pool.
func (k *poolKeys) forgetLeft(t *tx, pool string) error {
	if k == nil || !k.left || k.beyond {
		return nil
	}
	_, err := t.Exec("UPDATE {pools} SET keys_left=0 WHERE name=? AND NOT EXISTS (SELECT 1 FROM {keys} k WHERE k.pool=? AND k.look_at>0)", pool, pool)
	return err
}
