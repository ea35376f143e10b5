// Package outfile writes outputs to files that are rotated by their size: FILE becomes FILE.1, which becomes FILE.2, and so on. Several writers of one process
// share a file. Those of other processes may write to it, too: a line of theirs may be in the file before or after.
//
// A file is a regular one, of mode 0600, in folders that are made with mode 0700; what is there keeps its mode. A link in place of the file is not followed.
package outfile

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// lookAfter is how long a file is taken to be the one with its name: another process may have rotated it.
const lookAfter = time.Second

// Rotation says when a file is rotated.
type Rotation struct {
	Size int // bytes, at least 1: no file gets larger, but for what other processes write to it within a second
	Keep int // how many rotated files are kept, at least 1
}

// Files are the files of a process. The zero value is ready.
type Files struct {
	mu   sync.Mutex
	open map[string]*file
}

// Writer is one writer of a file.
type Writer struct {
	files *Files
	*file
	once sync.Once
}

type file struct {
	path   string
	users  int // of Files.mu
	mu     sync.Mutex
	f      *os.File
	size   int64
	looked time.Time
}

// Open opens a file for another writer, which closes it.
func (fs *Files) Open(path string) (*Writer, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	shared := fs.open[path]
	if shared == nil {
		shared = &file{path: path}
		if err := shared.reopen(); err != nil {
			return nil, err
		}
		if fs.open == nil {
			fs.open = map[string]*file{}
		}
		fs.open[path] = shared
	}
	shared.users++
	return &Writer{files: fs, file: shared}, nil
}

// Close ends the use of the file by this writer.
func (w *Writer) Close() (err error) {
	w.once.Do(func() {
		w.files.mu.Lock()
		defer w.files.mu.Unlock()
		if w.users--; w.users > 0 {
			return
		}
		delete(w.files.open, w.path)
		w.mu.Lock()
		defer w.mu.Unlock()
		err = w.close()
	})
	return err
}

// Append writes p, after a rotation if the file would be too large with it. What is larger than a file goes into several, divided behind a line, and within
// one only if that is larger than a file, too.
func (f *file) Append(p []byte, r Rotation) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		part := p[:fits(p, r.Size)]
		if err := f.append(part, r); err != nil {
			return err
		}
		if p = p[len(part):]; len(p) == 0 {
			return nil
		}
	}
}

// fits is how many bytes of p, in whole lines if possible, a file of that size can have.
func fits(p []byte, size int) int {
	if len(p) <= size {
		return len(p)
	}
	if lines := bytes.LastIndexByte(p[:size], '\n') + 1; lines > 0 {
		return lines
	}
	return max(size, 1)
}

func (f *file) append(p []byte, r Rotation) error {
	if f.f == nil || time.Since(f.looked) > lookAfter && !f.current() {
		if err := f.reopen(); err != nil {
			return err
		}
	}
	if f.size > 0 && f.size+int64(len(p)) > int64(r.Size) {
		if err := f.rotate(r.Keep); err != nil {
			return err
		}
	}
	n, err := f.f.Write(p)
	f.size += int64(n)
	return err
}

// current reports whether the open file is the one with its name, and counts what others have written to it.
func (f *file) current() bool {
	f.looked = time.Now()
	is, err := os.Lstat(f.path)
	if err != nil {
		return false
	}
	own, err := f.f.Stat()
	if err != nil || !os.SameFile(is, own) {
		return false
	}
	f.size = own.Size()
	return true
}

// rotate gives the file and the rotated ones the next numbers, and opens a new one.
func (f *file) rotate(keep int) error {
	if f.current() { // else another process has done it
		for n := keep; n > 0; n-- {
			from := fmt.Sprintf("%s.%d", f.path, n-1)
			if n == 1 {
				from = f.path
			}
			if err := os.Rename(from, fmt.Sprintf("%s.%d", f.path, n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return f.reopen()
}

func (f *file) reopen() error {
	_ = f.close()
	if err := os.MkdirAll(filepath.Dir(f.path), 0o700); err != nil {
		return err
	}
	opened, err := os.OpenFile(f.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|plainly, 0o600)
	if err != nil {
		return err
	}
	info, err := opened.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no regular file", f.path)
	}
	if err != nil {
		_ = opened.Close()
		return err
	}
	f.f, f.size, f.looked = opened, info.Size(), time.Now()
	return nil
}

func (f *file) close() error {
	if f.f == nil {
		return nil
	}
	err := f.f.Close()
	f.f = nil
	return err
}
