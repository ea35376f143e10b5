package bench

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/store"
)

const (
	producers     = 8
	bulkProducers = 4
)

// enqueued is what one kind of site reached, in tasks a second.
type enqueued struct {
	kind               kind
	rival              *competitor // nil: Lockstep
	alone, beside, all samples
	together           samples // in bulk, by several
}

// BenchmarkEnqueue measures how fast tasks are enqueued without workers.
func BenchmarkEnqueue(b *testing.B) {
	var field []*enqueued
	for _, k := range kinds {
		field = append(field, &enqueued{kind: k})
	}
	t := newTable(b, "Enqueue, tasks/s (min – max)", "", "one by one, 1 producer", fmt.Sprintf("one by one, %d producers", producers), fmt.Sprintf("%s in a call, 1 producer", count(bulk)), fmt.Sprintf("%s in a call, %d producers", count(bulk), bulkProducers))
	for _, v := range rivals[1:] { // River enqueues alike, as shipped or tuned
		field = append(field, &enqueued{kind: kind{name: v.name}, rival: &v})
	}
	takeTurns(b, len(field), func(r *round, i int) { field[i].turn(r) })
	for _, e := range field {
		t.add(e.kind.name, e.alone.spread(count), e.beside.spread(count), e.all.spread(count), e.together.spread(count))
	}
	t.print()
}

func (e *enqueued) turn(r *round) {
	if e.rival != nil {
		m := e.rival.measure(r, "enqueue", "-n", sized().tasks, "-singles", sized().singles)
		e.alone, e.beside, e.all = append(e.alone, m.Single), append(e.beside, m.Beside), append(e.all, m.Bulk)
		return
	}
	s := e.kind.open(r)
	st := s.store(r)
	s.define(r, st, jobs.Set{Pools: map[string]jobs.Pool{drainPool: {
		Handler: jobs.Func(func(context.Context, jobs.Task, struct{}) error { return nil }),
	}}})
	n := sized().singles
	e.alone = append(e.alone, rate(n, func() { single(r, st, n) }))
	e.beside = append(e.beside, rate(producers*n, func() {
		var all sync.WaitGroup
		for range producers {
			all.Go(func() { single(r, st, n) })
		}
		all.Wait()
	}))
	e.all = append(e.all, rate(sized().tasks, func() { fill(r, st, sized().tasks, 0) }))
	e.together = append(e.together, rate(sized().tasks, func() {
		var all sync.WaitGroup
		for range bulkProducers {
			all.Go(func() { fill(r, st, sized().tasks/bulkProducers, 0) })
		}
		all.Wait()
	}))
}

// single enqueues n tasks, each with its own commit.
func single(tb testing.TB, st *store.Store, n int) {
	for range n {
		if _, err := st.Enqueue(tb.Context(), jobs.NewTask{Pool: drainPool}); err != nil {
			tb.Error(err)
			return
		}
	}
}

func rate(n int, work func()) float64 {
	began := time.Now()
	work()
	return float64(n) / time.Since(began).Seconds()
}
