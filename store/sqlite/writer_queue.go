package sqlite

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
)

// writerQueue is the queue of the writers of one SQLite file. The file's write lock has none: a writer that
// begins again right after a COMMIT keeps out all writers that pause between two tries, for seconds on a loaded
// machine.
//
//  1. A writer locks the queue before it begins. It waits for its turn, turnPatience at most for the same holder.
//  2. With that lock, it tries for the file's write lock. It is the only one that does.
//  3. It unlocks the queue once it has the write lock. A writer that has just committed waits behind it.
//
// Only the order depends on the queue. A process that freezes with its lock holds up each other process once, for
// turnPatience.
type writerQueue struct {
	turn  chan struct{} // of this process
	file  *os.File      // locked by the process whose turn it is; it holds the count of turns
	stuck uint64        // the count at which patience ended
}

const (
	// turnPatience is how long the turn of a process may last before others write without one.
	turnPatience = 100 * time.Millisecond
	// turnPause is the longest pause between two tries.
	turnPause = 5 * time.Millisecond
)

// errLocked is tryLock's answer when another process has the lock.
var errLocked = errors.New("another process has the turn to write")

// openWriterQueue opens the queue of a database, which is a file beside it with the same rights.
func openWriterQueue(database string) (*writerQueue, error) {
	path := database + "-turn"
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot be written: %w", err)
	}
	if ours, err := os.Stat(database); err == nil {
		_ = f.Chmod(ours.Mode().Perm()) // another's file has them already
	}
	return &writerQueue{turn: make(chan struct{}, 1), file: f, stuck: math.MaxUint64}, nil
}

// Close releases the lock of the file. It implements io.Closer.
func (q *writerQueue) Close() error { return q.file.Close() }

// Enter waits for the earlier writers; leave must be called, and soon.
func (q *writerQueue) Enter(ctx context.Context) (leave func(), err error) {
	select {
	case q.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for a turn to write: %w", ctx.Err())
	}
	locked, err := q.lock(ctx)
	if err != nil {
		<-q.turn
		return nil, err
	}
	return func() {
		if locked {
			unlock(q.file)
		}
		<-q.turn
	}, nil
}

// lock reports whether it has the lock of the file. A missing lock is no error: the turn of another process
// lasts too long, or the file cannot be locked.
func (q *writerQueue) lock(ctx context.Context) (locked bool, err error) {
	before, since := uint64(math.MaxUint64), time.Time{} // no such count
	for n := 0; ; n++ {
		switch err := tryLock(q.file); {
		case err == nil:
			q.write(q.read() + 1)
			return true, nil
		case !errors.Is(err, errLocked):
			return false, nil
		}
		count := q.read()
		switch {
		case count == q.stuck:
			return false, nil
		case count != before:
			before, since = count, time.Now()
		case time.Since(since) >= turnPatience:
			q.stuck = count
			return false, nil
		}
		if err := sqlkit.Pause(ctx, n, turnPause); err != nil {
			return false, fmt.Errorf("waiting for a turn to write: %w", err)
		}
	}
}

func (q *writerQueue) read() uint64 {
	var b [8]byte
	if _, err := q.file.ReadAt(b[:], 0); err != nil {
		return 0 // no process had a turn yet
	}
	return binary.LittleEndian.Uint64(b[:])
}

func (q *writerQueue) write(count uint64) {
	_, _ = q.file.WriteAt(binary.LittleEndian.AppendUint64(nil, count), 0) // on a full disk the count stays, and others time out
}
