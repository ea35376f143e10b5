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

// turnstile makes the writers of one SQLite file take turns. The file's write lock has no queue: a writer that
// begins again right after a COMMIT keeps out all writers that pause between two tries, for seconds on a loaded
// machine.
//
//  1. A writer locks the turnstile before it begins. It waits for its turn, turnPatience at most for the same holder.
//  2. Inside, it tries for the file's write lock. It is the only one that does.
//  3. It leaves once it has the lock. A writer that has just committed waits behind the one inside.
//
// Only the order depends on the turnstile. A process that freezes inside holds up each other process once, for
// turnPatience.
type turnstile struct {
	inside chan struct{} // of this process
	file   *os.File      // locked by the process that is inside; it holds the count of entries
	stuck  uint64        // the count at which patience ended
}

const (
	// turnPatience is how long the same process may be inside before others write without a turn.
	turnPatience = 100 * time.Millisecond
	// turnPause is the longest pause between two tries.
	turnPause = 5 * time.Millisecond
)

// errInside is tryLock's answer when another process has the lock.
var errInside = errors.New("another process has its turn to write")

// openTurnstile opens the turnstile of a database, which is a file beside it with the same rights.
func openTurnstile(database string) (*turnstile, error) {
	path := database + "-turn"
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot be written: %w", err)
	}
	if ours, err := os.Stat(database); err == nil {
		_ = f.Chmod(ours.Mode().Perm()) // another's file has them already
	}
	return &turnstile{inside: make(chan struct{}, 1), file: f, stuck: math.MaxUint64}, nil
}

// Close releases the lock of the file. It implements io.Closer.
func (t *turnstile) Close() error { return t.file.Close() }

// Enter waits for the earlier writers; leave must be called, and soon.
func (t *turnstile) Enter(ctx context.Context) (leave func(), err error) {
	select {
	case t.inside <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for a turn to write: %w", ctx.Err())
	}
	locked, err := t.pass(ctx)
	if err != nil {
		<-t.inside
		return nil, err
	}
	return func() {
		if locked {
			unlock(t.file)
		}
		<-t.inside
	}, nil
}

// pass reports whether it has the lock of the file. A missing lock is no error: another process stays inside
// for too long, or the file cannot be locked.
func (t *turnstile) pass(ctx context.Context) (locked bool, err error) {
	before, since := uint64(math.MaxUint64), time.Time{} // no such count
	for n := 0; ; n++ {
		switch err := tryLock(t.file); {
		case err == nil:
			t.write(t.read() + 1)
			return true, nil
		case !errors.Is(err, errInside):
			return false, nil
		}
		count := t.read()
		switch {
		case count == t.stuck:
			return false, nil
		case count != before:
			before, since = count, time.Now()
		case time.Since(since) >= turnPatience:
			t.stuck = count
			return false, nil
		}
		if err := sqlkit.Pause(ctx, n, turnPause); err != nil {
			return false, fmt.Errorf("waiting for a turn to write: %w", err)
		}
	}
}

func (t *turnstile) read() uint64 {
	var b [8]byte
	if _, err := t.file.ReadAt(b[:], 0); err != nil {
		return 0 // no process was inside yet
	}
	return binary.LittleEndian.Uint64(b[:])
}

func (t *turnstile) write(count uint64) {
	_, _ = t.file.WriteAt(binary.LittleEndian.AppendUint64(nil, count), 0) // on a full disk the count stays, and others time out
}
