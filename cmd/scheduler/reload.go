package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/lockstep-scheduler/lockstep/config"
)

// reloadInterval is the interval of polls.
const reloadInterval = time.Second

// reloader polls files and loads them when their content changes. Contents are compared, since a file's time may stay
// the same.
//
//	read     changed  load           result
//	ok        no       -                 nothing
//	ok        yes      ok                the new content applies
//	error or unusable                    the previous content applies; polled until it is usable
//	ok        yes      ErrNoTokens       at the second poll in a row: revoke (programs may empty a file before they write it)
type reloader struct {
	what string                        // for log and readiness
	read func() ([][]byte, error)      // the contents of the files
	load func(contents [][]byte) error // applies what read returned, or changes nothing
	log  *slog.Logger

	every   time.Duration   // between two polls; 0: reloadInterval
	settle  time.Duration   // how long changed contents must have stayed the same; 0: they apply at once
	changed <-chan struct{} // something may have changed; nil: polls alone tell
	loaded  func() [][]byte // the contents that the last load has read, if it reads the files itself; nil: it goes by what read has returned
	logs    bool            // load says itself what it has loaded

	// revoke undoes load when load returns config.ErrNoTokens; nil: that error is like any other.
	revoke func()

	polling sync.Mutex
	seen    [][]byte // contents of the last load
	emptied bool     // the last poll found no tokens

	mu      sync.Mutex
	err     error // of the last poll
	revoked bool  // nothing was loaded since revoke
}

// first loads the files at the start.
func (f *reloader) first() error {
	contents, err := f.read()
	if err == nil {
		err = f.load(contents)
	}
	f.seen = contents
	return err
}

// run polls the files until ctx is done.
//
//  1. wait until it is time, or until something may have changed
//  2. if contents have changed and are to settle, wait until they have stayed the same
//  3. poll
func (f *reloader) run(ctx context.Context) {
	tick := time.NewTicker(cmp.Or(f.every, reloadInterval))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.changed:
		case <-tick.C:
		}
		if f.settle == 0 || f.settled(ctx) {
			f.poll()
		}
	}
}

// settleTries is how often contents may change while they are to settle; then the next poll looks.
const settleTries = 20

// settled waits until the contents are those of the last load, or have stayed the same.
func (f *reloader) settled(ctx context.Context) bool {
	f.polling.Lock()
	last := f.seen
	f.polling.Unlock()
	for range settleTries {
		now, err := f.read()
		if err != nil || slices.EqualFunc(now, last, bytes.Equal) {
			return true
		}
		last = now
		select {
		case <-ctx.Done():
			return false
		case <-time.After(f.settle):
		}
	}
	return false
}

// now loads the files, changed or not.
func (f *reloader) now(load func() error) error {
	f.polling.Lock()
	defer f.polling.Unlock()
	revoked, before := f.status()
	contents, err := f.read()
	if err == nil {
		contents, err = f.reading(contents, load)
	}
	if err == nil {
		f.seen = contents
	} else {
		f.refuse(err, before, revoked)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
	return err
}

// refuse logs why the files cannot be used, unless that was said before.
func (f *reloader) refuse(err, before error, revoked bool) {
	if isNews(err, before) {
		f.log.Error("file changed and cannot be used; "+inForce(revoked), "of", f.what, "error", oneLine(err))
	}
}

// isNews reports whether an error is another one than before.
func isNews(err, before error) bool { return before == nil || before.Error() != err.Error() }

// reading calls load, and returns the contents that it has loaded.
func (f *reloader) reading(contents [][]byte, load func() error) ([][]byte, error) {
	if err := load(); err != nil || f.loaded == nil {
		return contents, err
	}
	return f.loaded(), nil
}

func (f *reloader) poll() {
	f.polling.Lock()
	defer f.polling.Unlock()
	revoked, before := f.status()
	contents, err := f.read()
	if err == nil {
		if before == nil && slices.EqualFunc(contents, f.seen, bytes.Equal) {
			f.emptied = false
			return
		}
		contents, err = f.reading(contents, func() error { return f.load(contents) })
	}
	first := !f.emptied
	f.emptied = f.revoke != nil && errors.Is(err, config.ErrNoTokens)
	if f.emptied && first {
		return
	}
	switch {
	case err == nil:
		f.seen, revoked = contents, false
		if !f.logs {
			f.log.Info("file reloaded", "of", f.what)
		}
	case f.emptied:
		f.revoke()
		if isNews(err, before) || !revoked {
			f.log.Error("file changed and has no entries; all previous entries are revoked", "of", f.what, "error", oneLine(err))
		}
		revoked = true
	default:
		f.refuse(err, before, revoked)
	}
	f.mu.Lock()
	f.err, f.revoked = err, revoked
	f.mu.Unlock()
}

// status returns why the files cannot be used now, or nil, and whether their previous content is revoked.
func (f *reloader) status() (revoked bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.revoked, f.err
}

// inForce describes what applies while files cannot be used.
func inForce(revoked bool) string {
	if revoked {
		return "all previous entries are revoked"
	}
	return "the previous content still applies"
}
