package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/config"
	"github.com/lockstep-scheduler/lockstep/internal/filewatch"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler"
)

const (
	// configInterval is how often the files of a configuration are compared with what was loaded, whatever the system reports.
	configInterval = 10 * time.Second
	// configSettle is how long they must have stayed the same: an editor may still be writing.
	configSettle = 300 * time.Millisecond
	// maxWatched bounds a file of a configuration, in bytes: no larger one can be loaded.
	maxWatched = 64 << 20
)

// configuration is the file of a replica, which is loaded again while the replica runs: when it changes (reloader), by SIGHUP and by
// the API. What is loaded is checked as a whole, and takes the place of what there is, or changes nothing.
type configuration struct {
	path    string
	environ []string
	started *config.Config // what the replica was started with: settings that need a restart are those
	replica interface {
		Replace(ctx context.Context, set jobs.Set, o scheduler.ReplaceOptions) (wire.Reloaded, error)
	}
	log    *slog.Logger
	file   *reloader
	limits *commandLimits // nil: nobody asks

	watch *filewatch.Watcher // nil: nothing is watched

	mu        sync.Mutex     // one load at a time
	files     *loadedFiles   // of the last load
	last      *config.Config // of the last load that was right
	unwatched string         // what was said last of folders that are not watched
}

// newConfiguration is that of a replica which c was loaded for, from these files. Call close.
func newConfiguration(c *config.Config, files *loadedFiles, environ []string, log *slog.Logger) *configuration {
	own := &configuration{path: c.Path, environ: environ, started: c, last: c, files: files, log: log}
	own.file = &reloader{
		what: "configuration", log: log, logs: true, every: configInterval, settle: configSettle, read: own.readFiles, loaded: own.loaded,
		load: func([][]byte) error {
			_, err := own.load(context.Background(), false)
			return err
		},
	}
	if own.readable() && c.Watch {
		watch, err := filewatch.NewWatcher()
		if err != nil {
			log.Warn("the configuration's files are not watched; they are compared now and then", "every", configInterval.String(), "error", err)
		} else {
			own.watch, own.file.changed = watch, watch.Changed()
			own.watchFiles()
		}
	}
	if own.readable() {
		own.file.seen = own.loaded()
	}
	return own
}

// readable reports whether the configuration can be read again: a pipe that this process was started with cannot.
func (c *configuration) readable() bool {
	info, err := os.Stat(c.path)
	return err != nil || info.Mode().IsRegular()
}

// watchFiles watches the files that the last load has read, where they are now.
func (c *configuration) watchFiles() {
	if c.watch == nil {
		return
	}
	said := ""
	if err := c.watch.Watch(c.files.names()...); err != nil {
		if said = oneLine(err); said != c.unwatched {
			c.log.Warn("folders of the configuration are not watched; its files are compared now and then", "every", configInterval.String(), "error", said)
		}
	}
	c.unwatched = said
}

func (c *configuration) close() {
	if c.watch != nil {
		_ = c.watch.Close()
	}
}

// readFiles returns a hash of each file that the last load has read, and of what there is of each pattern, as they are now.
func (c *configuration) readFiles() (contents [][]byte, err error) {
	c.mu.Lock()
	c.watchFiles() // first: what changes from now on is reported
	names := c.files.names()
	c.mu.Unlock()
	for _, name := range names {
		contents = append(contents, readHash(name))
	}
	return contents, nil
}

// loaded are the same hashes, as the last load has read the files.
func (c *configuration) loaded() [][]byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.files.contents()
}

// read reads the configuration, and notes its files.
func (c *configuration) read() (*config.Config, error) {
	files := &loadedFiles{}
	loaded, err := config.Load(c.path, config.Options{Environ: c.environ, Opened: files.note, Previous: c.last, Processors: max(1, runtime.GOMAXPROCS(0)/2)}) // runs need some
	if err == nil {
		c.last = loaded
	}
	c.files = files
	c.watchFiles()
	return loaded, err
}

// written is when the last of the files was written; zero: unknown. The caller holds c.mu.
func (c *configuration) written() (last time.Time) {
	for _, name := range c.files.names() {
		if info, err := os.Stat(name); err == nil && info.ModTime().After(last) {
			last = info.ModTime()
		}
	}
	return last
}

// load loads the configuration again. An error changes nothing; it wraps jobs.ErrInvalid if it is about the files.
func (c *configuration) load(ctx context.Context, activate bool) (wire.Reloaded, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.readable() {
		return wire.Reloaded{}, unusable{fmt.Errorf("%s: it was read from a pipe, which cannot be read again; restart the replica", c.path)}
	}
	loaded, err := c.read()
	if err != nil {
		return wire.Reloaded{}, unusable{err}
	}
	set := loaded.Set
	set.Name = c.started.Set.Name // what of it has changed is among the settings
	out, err := c.replica.Replace(ctx, set, scheduler.ReplaceOptions{ConfigAt: c.written(), Activate: activate})
	if wrong := (*jobs.FieldError)(nil); errors.As(err, &wrong) {
		err = unusable{err}
	}
	if err != nil {
		return out, err
	}
	out.Restart = loaded.NeedsRestart(c.started)
	c.say(out)
	if c.limits != nil {
		c.limits.loaded(set)
	}
	for _, w := range loaded.Warnings {
		c.log.Warn("configuration: warning", "why", w.Error())
	}
	return out, nil
}

// reload is load for the API and for SIGHUP.
func (c *configuration) reload(ctx context.Context, activate bool) (out wire.Reloaded, err error) {
	err = c.file.now(func() error {
		out, err = c.load(ctx, activate)
		return err
	})
	return out, err
}

// say logs what a load has changed.
func (c *configuration) say(out wire.Reloaded) {
	hash := out.ConfigHash[:min(12, len(out.ConfigHash))]
	level, what := slog.LevelInfo, "configuration loaded again"
	if out.Jobs.None() && out.Pools.None() {
		what = "configuration loaded again: no job and no pool has changed"
	}
	args := []any{"configuration", out.Config, "hash", hash, "jobs", changedText(out.Jobs), "pools", changedText(out.Pools)}
	if !out.Governs && out.Newer != "" {
		level, what = slog.LevelWarn, "an older configuration was loaded: a newer one governs what differs; 'scheduler reload --activate' makes this one the newest"
		args = append(args, "governs", out.Newer)
	}
	if len(out.Restart) > 0 {
		args = append(args, "needs a restart", strings.Join(out.Restart, ", "))
	}
	if out.Pending != "" {
		args = append(args, "pending", out.Pending)
	}
	c.log.Log(context.Background(), level, what, args...)
}

// changedText counts names.
func changedText(c wire.Changed) string {
	var words []string
	for _, of := range []struct {
		names []string
		what  string
	}{{c.Added, "added"}, {c.Changed, "changed"}, {c.Removed, "removed"}} {
		if len(of.names) > 0 {
			words = append(words, fmt.Sprintf("%d %s", len(of.names), of.what))
		}
	}
	if len(words) == 0 {
		return "as before"
	}
	return strings.Join(words, ", ")
}

// unusable is the error of a configuration that cannot be loaded.
type unusable struct{ err error }

func (e unusable) Error() string { return e.err.Error() }

func (e unusable) Unwrap() []error { return []error{jobs.ErrInvalid, e.err} }

// follow loads the configuration when its files change, until ctx is done.
func (c *configuration) follow(ctx context.Context) {
	if !c.started.Watch || !c.readable() {
		return
	}
	var all sync.WaitGroup
	defer all.Wait()
	if c.watch != nil {
		all.Go(func() { c.watch.Run(ctx) })
	}
	c.file.run(ctx)
}

// usable reports whether the files are what the replica runs with, or could be loaded when they were looked at last.
func (c *configuration) usable() bool {
	_, err := c.file.status()
	return err == nil
}

// withConfiguration adds a condition while the files of the configuration cannot be used; the replica stays ready.
func withConfiguration(conditions func() []wire.Condition, c *configuration) func() []wire.Condition {
	return func() []wire.Condition {
		all := conditions()
		if _, err := c.file.status(); err != nil {
			all = append(all, wire.Condition{Name: "configuration file", Ready: true, Detail: "cannot be used, and the one before holds: " + oneLine(err)})
		}
		return all
	}
}
