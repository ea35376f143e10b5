package main

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"sync"
	"time"
)

// refreshEvery is how often files are looked at.
const refreshEvery = time.Second

// refreshed is files that are read again when their content changes. Contents are compared, not
// times: these can stay the same. Files that cannot be used leave what was read before.
type refreshed struct {
	what  string // for people
	paths []string
	load  func() error // takes over what the files hold, or nothing
	log   *slog.Logger

	seen [][]byte // contents that load saw last

	mu  sync.Mutex
	err error // of the last load
}

// first loads the files, or says why that cannot be.
func (f *refreshed) first() error {
	f.seen = f.read()
	return f.load()
}

// run looks after the files until ctx is done.
func (f *refreshed) run(ctx context.Context) {
	tick := time.NewTicker(refreshEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			f.look()
		}
	}
}

func (f *refreshed) look() {
	now := f.read()
	if same(now, f.seen) {
		return
	}
	f.seen = now
	err := f.load()
	if err != nil {
		f.log.Error("a file changed and cannot be used; what was read before still holds", "of", f.what, "error", oneLine(err))
	} else {
		f.log.Info("a file changed and was read again", "of", f.what)
	}
	f.mu.Lock()
	f.err = err
	f.mu.Unlock()
}

// trouble is why the files as they are now cannot be used, or nil.
func (f *refreshed) trouble() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// read returns what is in the files; nil for one that cannot be read.
func (f *refreshed) read() [][]byte {
	contents := make([][]byte, len(f.paths))
	for i, path := range f.paths {
		contents[i], _ = os.ReadFile(path) // load says why not
	}
	return contents
}

func same(a, b [][]byte) bool {
	for i := range a {
		if !bytes.Equal(a[i], b[i]) || (a[i] == nil) != (b[i] == nil) {
			return false
		}
	}
	return true
}
