package triggers

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"github.com/lockstep-scheduler/lockstep/scheduler/internal/wake"
)

// upcoming is when this replica looks at which job next: a heap by nominal UTC time.
type upcoming struct {
	mu    sync.Mutex
	queue dueQueue
	index map[string]*due
	freed map[string]time.Time // jobs that are being decided; the time is when the slot was freed meanwhile
	reads int                  // how many read rows at the moment
	ended map[string]time.Time // jobs whose slot was freed meanwhile, and when
}

type due struct {
	job   string
	at    time.Time
	waits bool // a due time waits for the slot, as far as is known: at is when to look again
	pos   int
}

func newUpcoming() *upcoming {
	return &upcoming{index: map[string]*due{}, freed: map[string]time.Time{}, ended: map[string]time.Time{}}
}

// set makes at the job's next time; a zero at forgets the job. With waits the job is looked at when its slot is free, too.
func (u *upcoming) set(job string, at time.Time, waits bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
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

// free makes now the time to look at a job with a due time that waits for the slot, and reports whether there is one. If
// the job is just being decided, decided does so: before that it is not known whether a due time waits.
func (u *upcoming) free(job string, now time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.reads > 0 {
		u.ended[job] = now
	}
	if _, deciding := u.freed[job]; deciding {
		u.freed[job] = now
		return false
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

// deciding notes that these jobs are about to be decided; call decided when it is known what waits.
func (u *upcoming) deciding(names []string) (decided func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, name := range names {
		u.freed[name] = time.Time{}
	}
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		for _, name := range names {
			if at := u.freed[name]; !at.IsZero() {
				u.hasten(name, at)
			}
			delete(u.freed, name)
		}
	}
}

// reading notes that rows are about to be read; call the answer when what they say is set. A row may have been read before a slot
// was freed: what waits for that slot is looked at then, and not when the row says.
func (u *upcoming) reading() (read func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.reads++
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		for job, at := range u.ended {
			u.hasten(job, at)
		}
		if u.reads--; u.reads == 0 {
			clear(u.ended)
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
func (s *Triggers) look(ctx context.Context, stripes []int) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	defer s.upcoming.reading()()
	rows, err := s.store.Upcoming(ctx, stripes)
	if err != nil {
		s.stripes.forget(stripes...)
		s.member.StoreFailed(err)
		return
	}
	for _, u := range rows {
		if _, known := s.plan.Jobs[u.Job]; known {
			s.upcoming.set(u.Job, u.NextAt, u.Waits)
		}
	}
	wake.Send(s.nudgeFire)
}
