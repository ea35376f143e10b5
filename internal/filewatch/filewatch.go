// Package filewatch tells whether files were written, by this or another process.
package filewatch

import (
	"os"
	"time"
)

// tick is the longest step of the clock that a file's time is taken from: two writes within it may leave the same time.
const tick = 10 * time.Millisecond

// Written returns a function that reports whether one of the files was written, made or removed since it was called last. The
// first call reports true if one of them exists. A write may be reported by two calls, if they are within 10 ms of it; none is
// missed, unless a file's time is set back to what it was.
//
// It opens no file: to close one would give up the locks that SQLite has on it in this process.
func Written(names ...string) func() bool {
	type state struct {
		size int64
		at   time.Time
	}
	last := make([]state, len(names))
	for i := range last {
		last[i].size = -1
	}
	return func() (written bool) {
		for i, name := range names {
			now := state{size: -1}
			if info, err := os.Stat(name); err == nil {
				now = state{info.Size(), info.ModTime()}
			}
			if now == last[i] {
				continue
			}
			last[i], written = now, true
			if age := time.Since(now.at); age >= 0 && age < tick {
				last[i].at = time.Time{} // the next write may leave this time, too
			}
		}
		return written
	}
}
