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

	// revoke undoes load when load returns config.ErrNoTokens; nil: that error is like any other.
	revoke func()

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
func (f *reloader) run(ctx context.Context) {
	tick := time.NewTicker(reloadInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			f.poll()
		}
	}
}

func (f *reloader) poll() {
	revoked, before := f.status()
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
		f.log.Info("file reloaded", "of", f.what)
	case f.emptied:
		f.revoke()
		if news || !revoked {
			f.log.Error("file changed and has no entries; all previous entries are revoked", "of", f.what, "error", oneLine(err))
		}
		revoked = true
	case news:
		f.log.Error("file changed and cannot be used; "+inForce(revoked), "of", f.what, "error", oneLine(err))
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
