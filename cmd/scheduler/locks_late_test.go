package main

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/config"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/locks"
)

// A store that is not open in time is one that is away, at whatever step the time ends: exit code 1, and with --wait it is tried again. It is no
// wrong configuration.
func TestAStoreThatIsNotOpenInTime(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lockstep.yaml")
	put(t, path, "version: 1\n")
	c, err := config.Load(path, config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	open := func(ctx context.Context) error {
		p, err := openForUsers(ctx, c, locks.Options{})
		if err == nil {
			err = p.close(t.Context())
		}
		return err
	}
	began := time.Now()
	if err := open(t.Context()); err != nil {
		t.Fatal(err)
	}
	step := time.Since(began) / 200
	check := func(when string, err error) {
		t.Helper()
		own, coded := errors.AsType[exit](notOpened(c, err))
		if coded || !away(err) || !errors.Is(err, jobs.ErrUnavailable) {
			t.Errorf("%s: %v, exit code %d", when, err, own.code)
		}
	}
	for limit, opened := time.Duration(0), 0; opened < 3; limit += step {
		ctx, stop := context.WithTimeout(t.Context(), limit)
		err := open(ctx)
		stop()
		if err == nil {
			opened++
			continue
		}
		check(limit.String(), err)
	}
	over, stop := context.WithCancel(t.Context())
	stop()
	p := &parts{}
	_, err = p.openFile(over, c.Store.DSN)
	check("the file of the locks", err)
	if err := p.close(t.Context()); err != nil {
		t.Error(err)
	}
}
