package main

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// refreshEvery is how often files are looked at.
const refreshEvery = time.Second

// refreshed is files that are read again when their content changes, and at every look as long as they
// cannot be used: what was wrong with them may be their owner or their mode. Contents are compared, not
// times: these can stay the same. Files that cannot be used leave what was read before, which trouble
// tells; they are taken over when they can be used again.
type refreshed struct {
	what string                        // for people
	read func() ([][]byte, error)      // what is in the files
	load func(contents [][]byte) error // takes over what read returned, or nothing
	log  *slog.Logger

	seen [][]byte // contents that load took over last

	mu  sync.Mutex
	err error // of the last look
}

// first loads the files, or says why that cannot be.
func (f *refreshed) first() error {
	contents, err := f.read()
	if err == nil {
		err = f.load(contents)
	}
	f.seen = contents
	return err
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
	before := f.trouble()
	contents, err := f.read()
	if err == nil {
		if before == nil && slices.EqualFunc(contents, f.seen, bytes.Equal) {
			return
		}
		err = f.load(contents)
	}
	switch {
	case err == nil:
		f.seen = contents
		f.log.Info("a file changed and was read again", "of", f.what)
	case before == nil || before.Error() != err.Error():
		f.log.Error("a file changed and cannot be used; what was read before still holds", "of", f.what, "error", oneLine(err))
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
