package scenarios

import (
	"runtime"
	"sync/atomic"
	"testing"
)

// 8 clients take tasks from a plain list and delete them: each task is taken once.
func TestTaskPool(t *testing.T) {
	each(t, one, func(t *testing.T, s site) {
		ls := s.lockers(t, 8)
		var list atomic.Pointer[[]int]
		tasks := make([]int, s.clients(200))
		for i := range tasks {
			tasks[i] = i
		}
		list.Store(&tasks)
		taken := make([]atomic.Int64, len(tasks))
		crowd(t, len(ls), func(i int) error {
			for more := true; more; {
				err := holding(t, ls[i], func() error {
					open := *list.Load()
					if more = len(open) > 0; !more {
						return nil
					}
					taken[open[0]].Add(1)
					runtime.Gosched() // between taking and deleting
					rest := open[1:]
					list.Store(&rest)
					return nil
				}, alone(s.kind, "tasks", i)...)
				if err != nil {
					return err
				}
			}
			return nil
		})
		for task := range taken {
			if n := taken[task].Load(); n != 1 {
				t.Errorf("task %d was taken %d times", task, n)
			}
		}
		shown.held(t, s, "TestTaskPool", "")
	})
}
