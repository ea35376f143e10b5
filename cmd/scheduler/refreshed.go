package main

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/lockstep-scheduler/lockstep/config"
)

// refreshEvery is how often files are looked at.
const refreshEvery = time.Second

// refreshed is files that are read again when their content changes, and at every look as long as they
// cannot be used: what was wrong with them may be their owner or their mode. Contents are compared, not
// times: these can stay the same. Files that cannot be used leave what was read before, which trouble
// tells; they are taken over when they can be used again. A list of tokens that has none left is no such file: it takes
// all back, at the second look that finds it so, as some programs empty a file before they write it.
type refreshed struct {
	what string                        // for people
	read func() ([][]byte, error)      // what is in the files
	load func(contents [][]byte) error // takes over what read returned, or nothing
	log  *slog.Logger

	// revoke takes back all that load took over, where load says config.ErrNoTokens; nil if that is an error as others.
	revoke func()

	seen    [][]byte // contents that load took over last
	emptied bool     // at the last look there was nothing left

	mu      sync.Mutex
	err     error // of the last look
	revoked bool  // nothing was taken over since revoke
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
	revoked, before := f.trouble()
	contents, err := f.read()
	if err == nil {
		if before == nil && slices.EqualFunc(contents, f.seen, bytes.Equal) {
			f.emptied = false
			return
		}
		err = f.load(contents)
	}
	first := !f.emptied
	f.emptied = f.revoke != nil && errors.Is(err, config.ErrNoTokens)
	if f.emptied && first {
		return
	}
	news := before == nil || err != nil && before.Error() != err.Error()
	switch {
	case err == nil:
		f.seen, revoked = contents, false
		f.log.Info("a file changed and was read again", "of", f.what)
	case f.emptied:
		f.revoke()
		if news || !revoked {
			f.log.Error("a file changed and has nothing any more; all that was read before is taken back", "of", f.what, "error", oneLine(err))
		}
		revoked = true
	case news:
		f.log.Error("a file changed and cannot be used; "+holds(revoked), "of", f.what, "error", oneLine(err))
	}
	f.mu.Lock()
	f.err, f.revoked = err, revoked
	f.mu.Unlock()
}

// trouble is why the files as they are now cannot be used, or nil; revoked, if all was taken back that was read before.
func (f *refreshed) trouble() (revoked bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.revoked, f.err
}

// holds says what is good while files cannot be used.
func holds(revoked bool) string {
	if revoked {
		return "all that was read before is taken back"
	}
	return "what was read before still holds"
}
