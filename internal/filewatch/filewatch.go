// Package filewatch tells whether files were written, by this or another process.
package filewatch

import (
	"os"
	"time"
)

// tick is the longest step of the clock that a file's time is taken from: two writes within it may leave the same time.
const tick = 10 * time.Millisecond

// Written returns a function that reports whether one of the files was written, made or removed since it was called last, see
// [File.Written].
func Written(names ...string) func() bool {
	files := make([]*File, len(names))
	for i, name := range names {
		files[i] = NewFile(name)
	}
	return func() (written bool) {
		for _, f := range files {
			written = f.Written() || written
		}
		return written
	}
}

// File tells when a file is written. It opens no file: to close one would give up the locks that SQLite has on it in this process.
type File struct {
	name string
	last state
}

// state is what the system tells of a file; the size of none is -1.
type state struct {
	size int64
	at   time.Time
}

// NewFile of a file that need not exist.
func NewFile(name string) *File { return &File{name, state{size: -1}} }

// Written reports whether the file was written, made or removed since it was called last. The first call reports true if it exists.
// A write may be reported by two calls, if they are within 10 ms of it; none is missed, unless a file's time is set back to what it was.
func (f *File) Written() bool {
	now := f.state()
	if now == f.last {
		return false
	}
	f.last = now
	if age := time.Since(now.at); age >= 0 && age < tick {
		f.last.at = time.Time{} // the next write may leave this time, too
	}
	return true
}

func (f *File) state() state {
	info, err := os.Stat(f.name)
	if err != nil {
		return state{size: -1}
	}
	return state{info.Size(), info.ModTime()}
}
