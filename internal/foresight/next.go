package foresight

import (
	"cmp"
	"container/heap"
	"iter"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// Due is a due time of a job.
type Due struct {
	Job   string
	At    time.Time // UTC; the nominal time, which the ledger has
	Start time.Time // UTC; when its trigger starts: later than At by jitter, and where calendars put it off
}

// Coming is a job with its first due time that counts. Those that follow are those of Starts; nil Times: none do.
type Coming struct {
	Due
	Times  *jobs.Schedule
	Starts jobs.Starts // of Times
}

// After is the job from its first due time on that starts after a moment; false if it has none.
func After(job string, times *jobs.Schedule, starts jobs.Starts, after time.Time) (Coming, bool) {
	c := Coming{Due{Job: job}, times, starts}
	return c, c.from(starts.Begun(after))
}

// from goes on to the first due time after a due time; false if it has none.
func (c *Coming) from(due time.Time) bool {
	if c.At = c.Times.Next(due); c.At.IsZero() {
		return false
	}
	c.Start = c.Starts.Of(c.At)
	return true
}

// Merge yields the due times of all jobs in the order in which they start, those of one moment in the order of their jobs' names, without an end
// if a schedule has none. It takes over the list, which it keeps as a heap: n jobs cost n steps before the first due time, and each due time
// log n. It can be ranged over once.
func Merge(all []Coming) iter.Seq[Due] {
	return func(yield func(Due) bool) {
		h := queue(all)
		heap.Init(&h)
		for len(h) > 0 {
			first := h[0]
			if !yield(first.Due) {
				return
			}
			if first.Times == nil || !h[0].from(first.At) {
				heap.Pop(&h)
				continue
			}
			heap.Fix(&h, 0)
		}
	}
}

// queue is a heap, the job first that starts first.
type queue []Coming

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	return cmp.Or(q[i].Start.Compare(q[j].Start), strings.Compare(q[i].Job, q[j].Job)) < 0
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)   { *q = append(*q, x.(Coming)) }
func (q *queue) Pop() any {
	old := *q
	last := old[len(old)-1]
	*q = old[:len(old)-1]
	return last
}
