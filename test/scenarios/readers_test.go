package scenarios

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lockstep-scheduler/lockstep/locks"
)

// 50 readers and 3 writers come again and again until each has had its turns, so nobody starves; where the backend has no order
// (Caps.FIFO), which would let a writer starve, each comes for its turns only. All readers are inside together once; a writer is
// always alone.
func TestReaders(t *testing.T) {
	each(t, []kind{shared}, func(t *testing.T, s site) {
		const readers, writers, turns = 50, 3, 4
		ls := s.crowded(t)
		var reading, writing atomic.Int64
		var met, wanting sync.WaitGroup
		met.Add(readers)
		wanting.Add(readers + writers)
		var enough atomic.Bool
		go func() { wanting.Wait(); enough.Store(true) }()

		read := func(first bool) error {
			if first {
				defer met.Wait() // inside
				defer met.Done()
			}
			reading.Add(1)
			defer reading.Add(-1)
			if n := writing.Load(); n != 0 {
				return fmt.Errorf("%d writers are inside with a reader", n)
			}
			return nil
		}
		write := func() error {
			if n := writing.Add(1); n != 1 {
				return fmt.Errorf("%d writers are inside", n)
			}
			defer writing.Add(-1)
			if n := reading.Load(); n != 0 {
				return fmt.Errorf("%d readers are inside with a writer", n)
			}
			return nil
		}
		crowd(t, readers+writers, func(i int) (err error) {
			turn, entered := 0, false
			defer func() {
				if err != nil && !entered && i < readers { // the others do not wait for it
					met.Done()
				}
			}()
			for ; err == nil && (turn < turns || s.caps.FIFO && !enough.Load()); turn++ {
				if i < readers {
					err = holding(t, ls[i%len(ls)], func() error {
						first := !entered
						entered = true
						return read(first)
					}, locks.Request{Key: "k", Mode: locks.Shared})
				} else {
					met.Wait()
					err = holding(t, ls[i%len(ls)], write, locks.Request{Key: "k"})
				}
				if turn+1 == turns {
					wanting.Done()
				}
			}
			if turn < turns { // it failed
				wanting.Done()
			}
			return err
		})
		shown.held(t, s, "TestReaders", "")
	})
}
