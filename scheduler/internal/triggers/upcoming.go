package triggers

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
)

// upcoming is when this replica looks at which job next: a heap by nominal UTC time.
type upcoming struct {
	mu    sync.Mutex
	queue dueQueue
	index map[string]*due
	open  int                // decisions, and reads of rows, that are under way
	frees int                // how many slots were freed
	freed map[string]freeing // the jobs whose slot was freed since open was 0
}

// freeing is the last time that the slot of a job was freed.
type freeing struct {
	at time.Time
	n  int // of frees
}

type due struct {
	job   string
	at    time.Time
	waits bool // a due time waits for the slot, as far as is known: at is when to look again
	pos   int
}

func newUpcoming() *upcoming {
	return &upcoming{index: map[string]*due{}, freed: map[string]freeing{}}
}

// set makes at the job's next time; a zero at forgets the job. With waits the job is looked at when its slot is free, too.
func (u *upcoming) set(job string, at time.Time, waits bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.put(job, at, waits)
}

// learn is set with what a row says. The row may be older than what is known: a job that is looked at sooner stays so.
func (u *upcoming) learn(job string, at time.Time, waits bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if d, known := u.index[job]; known && !at.IsZero() {
		at = earlier(at, d.at)
	}
	u.put(job, at, waits)
}

// put is set for a caller that holds u.mu.
func (u *upcoming) put(job string, at time.Time, waits bool) {
	d, known := u.index[job]
	switch {
	case at.IsZero() && known:
		heap.Remove(&u.queue, d.pos)
		delete(u.index, job)
	case at.IsZero():
	case known:
		d.at, d.waits = at, waits
		heap.Fix(&u.queue, d.pos)
	default:
		d = &due{job: job, at: at, waits: waits}
		u.index[job] = d
		heap.Push(&u.queue, d)
	}
}

// free makes now the time to look at a job with a due time that waits for the slot, and reports whether there is one. What is
// under way may find one that it does not know yet: see begin.
func (u *upcoming) free(job string, now time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.frees++
	if u.open > 0 {
		u.freed[job] = freeing{now, u.frees}
	}
	return u.hasten(job, now)
}

// hasten makes at the time to look at a job, if a due time waits. The caller holds u.mu.
func (u *upcoming) hasten(job string, at time.Time) bool {
	d, known := u.index[job]
	if !known || !d.waits {
		return false
	}
	d.at = earlier(d.at, at)
	heap.Fix(&u.queue, d.pos)
	return true
}

// begin notes that jobs are about to be decided, or their rows to be read; call end when the outcome is set. A slot that was
// freed in between may be taken in it: what waits for that slot is looked at when it was freed, and not when the outcome says.
func (u *upcoming) begin() (end func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.open++
	before := u.frees
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		for job, f := range u.freed {
			if f.n > before {
				u.hasten(job, f.at)
			}
		}
		if u.open--; u.open == 0 {
			clear(u.freed)
		}
	}
}

// take removes up to limit jobs that are due at now and wanted, earliest first; jobs that are due and
// not wanted are forgotten.
func (u *upcoming) take(now time.Time, limit int, wanted func(job string) bool) []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	var taken []string
	for len(u.queue) > 0 && len(taken) < limit && !u.queue[0].at.After(now) {
		d := heap.Pop(&u.queue).(*due)
		delete(u.index, d.job)
		if wanted(d.job) {
			taken = append(taken, d.job)
		}
	}
	return taken
}

// next is the earliest time in the heap; false if it is empty.
func (u *upcoming) next() (time.Time, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.queue) == 0 {
		return time.Time{}, false
	}
	return u.queue[0].at, true
}

type dueQueue []*due

func (q dueQueue) Len() int           { return len(q) }
func (q dueQueue) Less(i, j int) bool { return q[i].at.Before(q[j].at) }
func (q dueQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].pos, q[j].pos = i, j
}

func (q *dueQueue) Push(x any) {
	d := x.(*due)
	d.pos = len(*q)
	*q = append(*q, d)
}

func (q *dueQueue) Pop() any {
	old := *q
	d := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	return d
}

// look reads the next due times of stripes into the heap. If that fails, they are read when the stripes are
// balanced next.
func (t *Triggers) look(ctx context.Context, stripes []int) {
	t.lookAt(ctx, stripes, func(ctx context.Context) ([]ledger.Upcoming, error) { return t.store.Upcoming(ctx, stripes) })
}

// lookAt is look with another read, whose rows are of these stripes.
func (t *Triggers) lookAt(ctx context.Context, stripes []int, read func(context.Context) ([]ledger.Upcoming, error)) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	defer t.Wake() // after the end
	defer t.upcoming.begin()()
	rows, err := read(ctx)
	if err != nil {
		t.stripes.forget(stripes...)
		t.member.StoreFailed(err)
		return
	}
	p := t.plan.Load()
	for _, u := range rows {
		if _, known := p.Jobs[u.Job]; known {
			t.upcoming.learn(u.Job, u.NextAt, u.Waits)
		}
	}
}
