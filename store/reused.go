package store

import (
	"sync"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
)

// reused are slices that calls take and give back: those of a batch of tasks are half a megabyte, and thousands are needed a minute.
type reused[T any] struct{ pool sync.Pool }

// take returns a slice of length 0. What it holds must not be used after give.
func (r *reused[T]) take() []T {
	if list, ok := r.pool.Get().(*[]T); ok {
		return *list
	}
	return nil
}

// give takes a slice back, and lets go of what is in it.
func (r *reused[T]) give(list []T) {
	list = list[:cap(list)]
	clear(list)
	list = list[:0]
	r.pool.Put(&list)
}

// batches are the slices of claims and of ends.
type batches struct {
	read    reused[openTask]
	taken   reused[taken]
	results reused[ledger.Result]
	moves   reused[move]
}
