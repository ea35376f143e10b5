package main

import (
	"context"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/config"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

// followed is a configuration whose files are followed, in place of a replica.
type followed struct {
	jobs  atomic.Value // what was loaded last
	looks atomic.Int64
}

func (f *followed) Replace(_ context.Context, set jobs.Set, _ scheduler.ReplaceOptions) (wire.Reloaded, error) {
	f.jobs.Store(strings.Join(slices.Sorted(maps.Keys(set.Jobs)), " "))
	return wire.Reloaded{}, nil
}

func (f *followed) loads(t *testing.T, jobs string) {
	t.Helper()
	await.Until(t, "loaded is "+jobs, func() bool { return f.jobs.Load() == jobs })
}

// followFile follows a file until the test ends. Between two polls is so much time; deaf: the system reports nothing.
func followFile(t *testing.T, path string, every time.Duration, deaf bool) *followed {
	t.Helper()
	files := &loadedFiles{}
	c, err := config.Load(path, config.Options{Opened: files.note})
	if err != nil {
		t.Fatal(err)
	}
	f := &followed{}
	own := newConfiguration(c, files, nil, slog.New(slog.DiscardHandler))
	own.replica, own.file.every = f, every
	own.file.read = func() ([][]byte, error) {
		defer f.looks.Add(1)
		return own.readFiles()
	}
	if own.watch == nil {
		t.Fatal("nothing is watched")
	}
	if deaf {
		own.close()
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); own.follow(ctx) }()
	t.Cleanup(func() {
		stop()
		<-ended
		own.close()
	})
	return f
}

// What the system reports is loaded without a poll: files that are written, replaced, removed and back, mounted by links, and in folders
// that were not there.
func TestReportedChangesAreLoaded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "lockstep.yaml")
	text := func(names ...string) string { return withJobs(`include: ["jobs.d/*.yaml"]`, names...) }
	swapFile(t, path, text("a"))
	f := followFile(t, path, time.Hour, false)
	swapFile(t, path, text("a", "b"))
	f.loads(t, "a b")
	put(t, path, text("b"))
	f.loads(t, "b")
	folder := filepath.Join(dir, "jobs.d")
	before := f.looks.Load()
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the folder was looked at", func() bool { return f.looks.Load() > before })
	put(t, filepath.Join(folder, "c.yaml"), "jobs: {c: {command: [echo]}}")
	f.loads(t, "b c")
	put(t, filepath.Join(folder, "d.yaml"), "jobs: {d: {command: [echo]}}")
	f.loads(t, "b c d")
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	f.loads(t, "b")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(folder, "c.yaml"), "jobs: {c: {command: [echo]}}")
	f.loads(t, "b c")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	put(t, path, text("e"))
	f.loads(t, "c e")
}

// A volume of Kubernetes is swapped as a whole, also again.
func TestReportedVolumesAreLoaded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	link := func(to, name string) {
		t.Helper()
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	mount := func(version string, names ...string) {
		t.Helper()
		if err := os.Mkdir(filepath.Join(dir, version), 0o700); err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(dir, version, "lockstep.yaml"), withJobs("", names...))
		link(version, "..data_tmp")
		if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	mount("..1", "a")
	link("..data/lockstep.yaml", "lockstep.yaml")
	f := followFile(t, filepath.Join(dir, "lockstep.yaml"), time.Hour, false)
	mount("..2", "b")
	f.loads(t, "b")
	mount("..3", "c")
	f.loads(t, "c")
}

// What the system does not report is found by the poll: here nothing is reported, and a link above the file's folder is replaced, which no watched
// folder shows.
func TestUnreportedChangesAreLoaded(t *testing.T) {
	t.Parallel()
	for name, deaf := range map[string]bool{"nothing is reported": true, "a link above": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for _, version := range []string{"1", "2"} {
				if err := os.Mkdir(filepath.Join(dir, version), 0o700); err != nil {
					t.Fatal(err)
				}
				put(t, filepath.Join(dir, version, "lockstep.yaml"), withJobs("", "of-"+version))
			}
			current := filepath.Join(dir, "current")
			if err := os.Symlink("1", current); err != nil {
				t.Fatal(err)
			}
			f := followFile(t, filepath.Join(current, "lockstep.yaml"), 20*time.Millisecond, deaf)
			if deaf {
				put(t, filepath.Join(current, "lockstep.yaml"), withJobs("", "edited"))
				f.loads(t, "edited")
			}
			if err := os.Symlink("2", current+"~"); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(current+"~", current); err != nil {
				t.Fatal(err)
			}
			f.loads(t, "of-2")
		})
	}
}
