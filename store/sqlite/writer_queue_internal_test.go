package sqlite

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// queues are those of so many processes that opened one file.
func queues(t *testing.T, n int) []*writerQueue {
	t.Helper()
	file := filepath.Join(t.TempDir(), "a.db")
	var all []*writerQueue
	for range n {
		each, err := openWriterQueue(file)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { each.Close() })
		all = append(all, each)
	}
	return all
}

func turn(t *testing.T, queue *writerQueue) (leave func()) {
	t.Helper()
	leave, err := queue.Enter(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return leave
}

func TestWritersHaveTurnsOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := queues(t, 2)
		leave := turn(t, all[0])
		var came atomic.Int32
		var coming sync.WaitGroup
		defer coming.Wait()
		for _, queue := range all {
			coming.Go(func() {
				leave := turn(t, queue)
				came.Add(1)
				time.Sleep(turnPatience / 2)
				leave()
			})
		}
		time.Sleep(turnPatience / 2)
		if came.Load() != 0 {
			t.Error("a second turn began during the first")
		}
		leave()
		time.Sleep(turnPause)
		if came.Load() != 1 {
			t.Errorf("%d turns began once it was free", came.Load())
		}
		time.Sleep(turnPatience/2 + turnPause)
		if came.Load() != 2 {
			t.Error("the second turn did not begin after the first")
		}
	})
}

// A process that froze in its turn holds up each other process for turnPatience once, not each of their transactions.
func TestTheQueueOfWritersIsNotHeldUpForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := queues(t, 2)
		frozen := turn(t, all[0])
		for n := range 3 {
			began := time.Now()
			leave := turn(t, all[1])
			took := time.Since(began)
			if first := n == 0; first != (took >= turnPatience) || took > turnPatience+turnPause {
				t.Errorf("entry %d took %v", n, took)
			}
			leave()
		}
		frozen()
		turn(t, all[1])()
		again := turn(t, all[0])
		began := time.Now()
		time.AfterFunc(turnPatience/2, again)
		turn(t, all[1])()
		if took := time.Since(began); took < turnPatience/2 {
			t.Errorf("it went around one who was not the frozen one, after %v", took)
		}
	})
}

func TestTheQueueOfWritersObeysTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := queues(t, 2)
		leave := turn(t, all[0])
		defer leave()
		for name, queue := range map[string]*writerQueue{"its own": all[0], "another": all[1]} {
			ctx, cancel := context.WithTimeout(t.Context(), turnPatience/2)
			defer cancel()
			if _, err := queue.Enter(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("behind %s process: %v", name, err)
			}
		}
	})
}

// With a file that cannot be locked, the order is lost, and no time.
func TestAQueueOfWritersThatCannotBeLocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := queues(t, 1)[0]
		if err := queue.Close(); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for range 3 {
			turn(t, queue)()
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("it took %v", took)
		}
	})
}

// A user that may write the database may have turns, whichever user made their file.
func TestTheQueueOfWritersHasTheRightsOfItsDatabase(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.db")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, 0o660); err != nil { //nolint:gosec // a group that shares it
		t.Fatal(err)
	}
	queue, err := openWriterQueue(file)
	if err != nil {
		t.Fatal(err)
	}
	defer queue.Close()
	if info, err := queue.file.Stat(); err != nil || info.Mode().Perm() != 0o660 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}
