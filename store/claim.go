package store

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
)

// Claim takes pending tasks that are due, in order of priority, due time and id. It implements
// ledger.Tasks.
//
// A clock that was wrong may have made a task ready too early: here it must be due by the time that c.Now
// makes of the database's. A task that was made to run at once does not wait for that.
//
// No task is claimed twice, whether or not the claiming replicas hold a lock: a row is taken only if it is
// still pending under the token that was read. In a pool with limits its row is locked: its running tasks are counted by index, and its
// bucket is read and written, so the limits are exact over all replicas.
//
// A claim ends early where the payloads would be more than c.Bytes.
// When Admit refuses a whole batch, the next one is read, once, in a transaction of its own. Candidates whose keys cannot be made are ended
// after the claim is committed, in another one. If that fails, the next claim finds them again: what this one took is returned without an error.
// When all of a batch wait for their keys from now on, many more are sorted, see sortKeys: the tasks of a key that is full may be many, and
// others stand behind them.
//
// Errors, which come without tasks: ledger.ErrSessionDead, ledger.ErrOutdated, what c.Now returned, jobs.ErrUnavailable.
func (s replica) Claim(ctx context.Context, c ledger.Claim) (ledger.Claimed, error) {
	if c.Pools[c.Pool].Room < 1 {
		return ledger.Claimed{}, nil
	}
	w := &claim{Claim: c, read: s.batches.read.take(), taken: s.batches.taken.take()}
	defer func() {
		s.batches.read.give(w.read)
		s.batches.taken.give(w.taken)
	}()
	if err := s.settle(ctx, "claim", w.write, w.committed); err != nil {
		return ledger.Claimed{}, err
	}
	if len(w.wrong) > 0 {
		failed, err := s.failLocks(ctx, w.wrong)
		if err == nil {
			w.out.Failed = failed
		} else if len(w.out.Tasks) == 0 {
			return ledger.Claimed{}, err
		}
		return w.out, nil
	}
	if len(w.out.Tasks) == 0 && w.out.Behind > 0 && w.beyond {
		n, _, err := s.sortKeys(ctx, c.Pool, w.now, "{for_update}")
		if w.out.Behind += n; err != nil {
			return w.out, err
		}
	}
	if len(w.out.Tasks) > 0 || len(w.locked) > 0 || len(w.out.Foreign) == 0 || !w.beyond {
		return w.out, nil
	}
	beyond := &claim{Claim: c, skip: w.seen}
	if err := s.settle(ctx, "claim", beyond.write, beyond.committed); err != nil {
		return ledger.Claimed{}, err
	}
	beyond.out.Foreign = append(w.out.Foreign, beyond.out.Foreign...)
	return beyond.out, nil
}

// claim is one Claim call; each call of write starts it again.
type claim struct {
	ledger.Claim
	skip int // candidates of earlier batches

	now       time.Time
	admission *admission
	seen      int        // candidates
	beyond    bool       // there may be more of them
	read      []openTask // candidates as they were read
	enough    bool       // the payloads of the next one would not fit
	jobs      []*jobRow
	taken     []taken
	rows      []*taken    // the same, in the order of locks
	locked    []locked    // candidates whose locks are not held
	behind    []*openTask // candidates that wait for their kind or their key from now on
	wrong     []locked    // candidates whose keys cannot be made
	out       ledger.Claimed
}

// taken is a task that is claimed, as it was read and as it is then. Tasks are large, and many are claimed: none is copied that
// need not be.
type taken struct {
	was *openTask
	is  openTask
}

func (m *taken) id() string     { return m.was.ID }
func (m *taken) key() ledgerKey { return m.was.key() }

func (w *claim) write(t *tx) error {
	w.taken, w.rows, w.locked, w.wrong, w.behind, w.out = w.taken[:0], nil, nil, nil, nil, ledger.Claimed{}
	is, err := t.begin(w.Session, w.Now)
	if w.now = is.now; err != nil {
		return err
	}
	if w.out.Now, w.out.Paused = w.now, is.paused.Is(); w.out.Paused {
		return nil
	}
	w.Admission = w.Grown()
	room, err := w.room(t)
	if err == nil && w.out.Full && len(w.Waiting) > 0 {
		err = t.waitNoMore(w.Waiting)
	}
	if err != nil {
		return err
	}
	if room > 0 {
		if err := w.choose(t, room); err != nil {
			return err
		}
	}
	p := w.admission.pools[w.Pool]
	if err := p.keys.write(t, w.Pool); err != nil {
		return err
	}
	if len(w.taken) > 0 {
		if err := w.start(t); err != nil {
			return err
		}
	}
	if err := w.waitForKeys(t, p.keys); err != nil {
		return err
	}
	if err := w.admission.spend(t); err != nil {
		return err
	}
	if w.out.Left = max(0, p.left); !p.now.IsZero() { // its bucket was read
		w.out.OpensIn = p.limits.OpensIn(p.bucket, p.now)
	}
	if room < 1 {
		return nil
	}
	return w.wait(t)
}

// start makes the chosen tasks running.
func (w *claim) start(t *tx) error {
	w.rows = inLockOrder(w.taken)
	if err := t.saveJobs(w.jobs); err != nil {
		return err
	}
	if err := w.startTriggers(t); err != nil {
		return err
	}
	return w.take(t)
}

// room reads the pool's row and returns how many tasks may be claimed.
func (w *claim) room(t *tx) (int, error) {
	lock := ""
	if w.Guard || w.Pools[w.Pool].Limited {
		lock = "{for_update}"
	}
	w.admission = newAdmission(w.Admission, w.now)
	w.admission.keys = w.Pools[w.Pool].Limited
	if err := w.admission.read(t, []string{w.Pool}, lock); err != nil {
		return 0, err
	}
	if p := w.admission.pools[w.Pool]; p != nil && (p.unlocked || p.keys != nil && !w.admission.keys) { // it has limits that the replica does not know of
		w.admission.keys = true
		if err := w.admission.read(t, []string{w.Pool}, "{for_update}"); err != nil {
			return 0, err
		}
	}
	if w.admission.outdated(w.Pool) {
		return 0, ledger.ErrOutdated
	}
	p := w.admission.pools[w.Pool]
	t.s.kinds.learn(w.Pool, p.setKeys)
	if p.keys != nil && p.room > 0 {
		if err := p.keys.read(t, w.Pool, p, w.now, len(w.Waiting) == 0); err != nil {
			return 0, err
		}
	}
	w.out.Paused, w.out.Full, w.out.Limited, w.out.ByKey = p.paused, p.full, p.limited(), p.keys != nil
	return p.room, nil
}

// choose reads candidates without a lock, locks the rows of their jobs, and asks the admission about each with a free job.
//
// Index: tasks_claim, equality on state and pool, then its order.
func (w *claim) choose(t *tx, room int) error {
	if len(w.Waiting) > 0 {
		return w.chooseWaiting(t)
	}
	const index = "{index}{tasks}_claim{end}"
	where := " WHERE state=0 AND pool=? AND (run_at<=? OR run_at=created_at) AND (expires_at=0 OR expires_at>? OR attempt>0)"
	scope, names := inScope(w.Scope)
	keys := w.admission.pools[w.Pool].keys
	free := room
	switch {
	case keys == nil:
	case keys.fair != nil: // the more it reads, the sooner it finds keys that have few tasks
		room = max(2*room, fairLook)
	default: // and those that are not full
		room = max(room, keyLook)
	}
	rest := scope + " ORDER BY rank_order, run_at, id LIMIT ? OFFSET ?"
	args := slices.Concat([]any{w.Pool, micros(w.now), micros(w.now)}, names, []any{room, w.skip})
	var candidates []openTask
	var err error
	if keys == nil {
		w.read, err = listInto(w.read[:0], t.openRows(taskColumns, index+where+rest, args...), (*taskModel).open)
		candidates = w.read
	} else {
		candidates, err = keys.candidates(t, w.read[:0], index, strings.Replace(where, "pool=?", "t.pool=?", 1)+rest, args...)
	}
	if err != nil {
		return err
	}
	w.seen, w.beyond = len(candidates), len(candidates) == room || len(candidates) > free
	if candidates, err = w.withKeyed(t, keys, candidates, free); err != nil {
		return err
	}
	w.read = candidates
	busy, err := w.lock(t, candidates)
	if err != nil {
		return err
	}
	w.askFor(candidates, busy)
	w.out.More = w.beyond || w.enough || len(busy) > 0 || keys.more() || keys != nil && keys.fair != nil && len(w.behind) > 0
	return nil
}

// lock locks the free rows of the candidates' jobs. It waits for one only if every candidate needs one and none is free.
func (w *claim) lock(t *tx, candidates []openTask) (busy []string, err error) {
	var wanted []string
	for _, r := range candidates {
		if r.Job != "" {
			wanted = append(wanted, r.Job)
		}
	}
	if k := w.admission.pools[w.Pool].keys; len(wanted) < len(candidates) || k != nil && k.locked { // their rows come after those of jobs
		w.jobs, busy, err = t.tryLockFreeJobs(wanted)
	} else {
		w.jobs, busy, err = t.lockFreeJobs(wanted, time.Time{})
	}
	return busy, err
}

// askFor asks the admission about each candidate whose job is not busy, as long as their payloads fit.
func (w *claim) askFor(candidates []openTask, busy []string) {
	w.taken, w.enough = slices.Grow(w.taken[:0], len(candidates)), false
	bytes := 0
	for i := range candidates {
		r, before := &candidates[i], len(w.taken)
		if _, is := slices.BinarySearch(busy, r.Job); is {
			continue
		}
		if w.enough = w.Bytes > 0 && before > 0 && bytes+r.PayloadSize > w.Bytes; w.enough {
			return
		}
		if w.ask(r); len(w.taken) > before {
			bytes += r.PayloadSize
		}
	}
}

func (w *claim) ask(r *openTask) {
	job, _ := findJob(w.jobs, r.Job)
	keys := w.admission.pools[w.Pool].keys
	if keys.shut(r) {
		return
	}
	if w.waits(r) {
		if already := keys.wait(r); !already {
			w.behind = append(w.behind, r)
		}
		return
	}
	switch is, ok, foreign := w.admission.admit(*r, job); {
	case is.locking.State == ledger.LocksWrong:
		w.wrong = append(w.wrong, locked{*r, is.locking})
	case is.locking.State != ledger.LocksHeld:
		w.locked = append(w.locked, locked{*r, is.locking})
	case ok:
		keys.leave(r)
		is.Reason, is.ReasonCode, is.Error, is.ExitCode = "", "", "", nil
		w.taken = append(w.taken, taken{r, is})
	case foreign:
		w.out.Foreign = append(w.out.Foreign, r.Task)
	}
}

// startTriggers records the first start of a trigger's task, and how long its locks took.
//
// Index: primary key of triggers.
func (w *claim) startTriggers(t *tx) error {
	_, err := t.Exec("UPDATE {triggers}{by_key} SET started_at=?, lock_took=? WHERE started_at=0 AND COALESCE(outcome, '')='' AND "+ofTrigger,
		sqlkit.Rows(bornOfTriggers(w.rows), triggerKey), micros(w.now), w.LockTook.Microseconds())
	return err
}

// take writes the claim and finds out which tasks it got: another replica may have claimed some first, as there is no lock.
func (w *claim) take(t *tx) error {
	from := [2]int{rowReady, rowKeyed}
	if len(w.Waiting) > 0 {
		from = [2]int{rowLocked, rowLocked}
	}
	count, err := t.startTasks(w.ID, from, w.rows)
	if err != nil {
		return err
	}
	if len(w.Waiting) > 0 {
		if err := t.forgetWaits(mapped(w.rows, (*taken).id)); err != nil {
			return err
		}
	}
	if err := w.readPayloads(t); err != nil {
		return err
	}
	got := func(string) bool { return true }
	if count < len(w.rows) {
		if got, err = w.ours(t, ""); err != nil {
			return err
		}
	}
	w.report(got)
	return t.keepEvents(w.now, w.StartEvents(w.out.Tasks))
}

func inLockOrder(tasks []taken) []*taken {
	rows := make([]*taken, len(tasks))
	for i := range tasks {
		rows[i] = &tasks[i]
	}
	slices.SortFunc(rows, func(a, b *taken) int { return strings.Compare(a.was.ID, b.was.ID) })
	return rows
}

// ours returns which of the tasks carry this claim.
//
// Index: primary key.
func (w *claim) ours(t *tx, lock string) (func(id string) bool, error) {
	got, err := column[string](t.rows("SELECT id FROM {tasks} WHERE {in name id} AND state+0=2 AND claim_id=? ORDER BY id"+lock,
		sqlkit.Keys(mapped(w.rows, (*taken).id)), w.ID))
	return func(id string) bool { _, is := slices.BinarySearch(got, id); return is }, err
}

func (w *claim) report(got func(id string) bool) {
	w.out.Tasks, w.out.Freed = make([]ledger.Started, 0, len(w.taken)), 0
	for i := range w.taken {
		if m := &w.taken[i].is; got(m.ID) {
			if w.taken[i].was.row == rowKeyed {
				w.out.Freed++
			}
			task := m.Task
			w.out.Tasks = append(w.out.Tasks, ledger.Started{Task: &task, Until: m.mayRunUntil})
		}
	}
}

// committed waits for the locks of a COMMIT that may still be in progress, and finds the claim's rows, if any.
func (w *claim) committed(t *tx) (bool, error) {
	if len(w.taken) == 0 {
		return true, nil
	}
	got, err := w.ours(t, "{for_update}")
	if err != nil || !slices.ContainsFunc(w.rows, func(m *taken) bool { return got(m.id()) }) {
		return false, err
	}
	w.report(got)
	return true, nil
}
