package filewatch

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/lockstep-scheduler/lockstep/test/await"
)

// follower reads files when a Watcher says so, and at no other time.
type follower struct {
	files []string // patterns
	read  atomic.Value
	looks atomic.Int64
}

func (f *follower) look(t *testing.T, w *Watcher) {
	if err := w.Watch(f.files...); err != nil {
		t.Error(err)
	}
	var all []string
	for _, pattern := range f.files {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Error(err)
		}
		for _, name := range found {
			text, _ := os.ReadFile(name) // it may have gone
			all = append(all, string(text))
		}
	}
	f.read.Store(strings.Join(all, " "))
	f.looks.Add(1)
}

// run follows until the test ends.
func (f *follower) run(t *testing.T) {
	t.Helper()
	w, err := NewWatcher()
	if err != nil {
		t.Fatal(err)
	}
	f.look(t, w)
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() { w.Run(ctx) })
	all.Go(func() {
		for {
			select {
			case <-w.Changed():
				f.look(t, w)
			case <-ctx.Done():
				return
			}
		}
	})
	t.Cleanup(func() {
		stop()
		all.Wait()
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func mkdir(t *testing.T, name string) {
	t.Helper()
	if err := os.MkdirAll(name, 0o700); err != nil {
		t.Fatal(err)
	}
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, name string) {
	t.Helper()
	if err := os.RemoveAll(name); err != nil {
		t.Fatal(err)
	}
}

// mount makes a version of a volume as Kubernetes does: files are links into ..data, a link that is replaced.
func mount(t *testing.T, version, text string) {
	t.Helper()
	mkdir(t, "..v"+version)
	write(t, filepath.Join("..v"+version, "a.yaml"), text)
	if err := os.Symlink("..v"+version, "..data_tmp"); err != nil {
		t.Fatal(err)
	}
	rename(t, "..data_tmp", "..data")
}

// What changes files is reported by the system, whoever does it in whatever way: nobody looks of their own accord here. A step without text changes no
// file, and another look is to follow.
func TestWhatTheSystemReports(t *testing.T) {
	type step struct {
		do   func(t *testing.T)
		text string
	}
	for name, c := range map[string]struct {
		files string
		setup func(t *testing.T)
		steps []step
	}{
		"a write": {"a.yaml", func(t *testing.T) { write(t, "a.yaml", "1") }, []step{
			{func(t *testing.T) { write(t, "a.yaml", "2") }, "2"},
			{func(t *testing.T) { write(t, "a.yaml", "3") }, "3"},
		}},
		"another file takes its place": {"a.yaml", func(t *testing.T) { write(t, "a.yaml", "1"); write(t, "b", "2"); write(t, "c", "3") }, []step{
			{func(t *testing.T) { rename(t, "b", "a.yaml") }, "2"},
			{func(t *testing.T) { rename(t, "c", "a.yaml") }, "3"},
		}},
		"a volume of Kubernetes": {"a.yaml", func(t *testing.T) {
			mount(t, "1", "1")
			if err := os.Symlink("..data/a.yaml", "a.yaml"); err != nil {
				t.Fatal(err)
			}
		}, []step{
			{func(t *testing.T) { mount(t, "2", "2"); remove(t, "..v1") }, "2"},
			{func(t *testing.T) { mount(t, "3", "3") }, "3"},
			{func(t *testing.T) { write(t, "..v3/a.yaml", "4") }, "4"},
		}},
		"removed, and it comes back": {"a.yaml", func(t *testing.T) { write(t, "a.yaml", "1") }, []step{
			{func(t *testing.T) { remove(t, "a.yaml") }, ""},
			{func(t *testing.T) { write(t, "a.yaml", "2") }, "2"},
		}},
		"its folder comes later": {"jobs.d/*.yaml", func(*testing.T) {}, []step{
			{func(t *testing.T) { mkdir(t, "jobs.d") }, ""},
			{func(t *testing.T) { write(t, "jobs.d/a.yaml", "1") }, "1"},
			{func(t *testing.T) { write(t, "jobs.d/b.yaml", "2") }, "1 2"},
		}},
		"and the one above that, at once": {"conf/jobs.d/a.yaml", func(*testing.T) {}, []step{
			{func(t *testing.T) { mkdir(t, "conf/jobs.d"); write(t, "conf/jobs.d/a.yaml", "1") }, "1"},
			{func(t *testing.T) { write(t, "conf/jobs.d/a.yaml", "2") }, "2"},
		}},
		"another folder takes its place": {"jobs.d/*.yaml", func(t *testing.T) {
			mkdir(t, "jobs.d")
			mkdir(t, "new")
			write(t, "jobs.d/a.yaml", "1")
			write(t, "new/a.yaml", "2")
		}, []step{
			{func(t *testing.T) { rename(t, "jobs.d", "old") }, ""},
			{func(t *testing.T) { rename(t, "new", "jobs.d") }, "2"},
			{func(t *testing.T) { write(t, "jobs.d/a.yaml", "3") }, "3"},
		}},
		"its folder is removed, and comes back": {"jobs.d/*.yaml", func(t *testing.T) { mkdir(t, "jobs.d"); write(t, "jobs.d/a.yaml", "1") }, []step{
			{func(t *testing.T) { remove(t, "jobs.d") }, ""},
			{func(t *testing.T) { mkdir(t, "jobs.d") }, ""},
			{func(t *testing.T) { write(t, "jobs.d/a.yaml", "2") }, "2"},
		}},
		"one more folder of a pattern": {"*/a.yaml", func(t *testing.T) { mkdir(t, "x"); write(t, "x/a.yaml", "1") }, []step{
			{func(t *testing.T) { mkdir(t, "y") }, ""},
			{func(t *testing.T) { write(t, "y/a.yaml", "2") }, "1 2"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			c.setup(t)
			f := &follower{files: []string{c.files}}
			f.run(t)
			for _, step := range c.steps {
				before := f.looks.Load()
				step.do(t)
				await.Until(t, "a change is reported", func() bool {
					return f.looks.Load() > before && (step.text == "" || f.read.Load() == step.text)
				})
			}
		})
	}
}

// A folder that comes while the one above it is about to be watched is watched, too.
func TestFoldersThatComeAtOnce(t *testing.T) {
	t.Chdir(t.TempDir())
	for i := range 50 {
		top := fmt.Sprint("conf", i)
		file := filepath.Join(top, "1", "2", "3", "4", "5", "a.yaml")
		mkdir(t, top)
		f := &follower{files: []string{file}}
		f.run(t)
		mkdir(t, filepath.Dir(file))
		write(t, file, "1")
		await.Until(t, "it is read", func() bool { return f.read.Load() == "1" })
	}
}

// A write to another file of the folder is no change; that it comes, goes or gets another name is, as is an error of the system.
func TestWritesToOtherFilesAreLeftOut(t *testing.T) {
	dir := t.TempDir()
	w, err := NewWatcher()
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "target.yaml"), "1")
	if err := os.Symlink("target.yaml", filepath.Join(dir, "a.yaml")); err != nil {
		t.Fatal(err)
	}
	if err := w.Watch(filepath.Join(dir, "a.yaml"), filepath.Join(dir, "*.env"), filepath.Join(dir, "b[1].yaml")); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	events, errs := make(chan fsnotify.Event), make(chan error)
	w.system = &fsnotify.Watcher{Events: events, Errors: errs}
	ended := make(chan struct{})
	go func() { defer close(ended); w.Run(t.Context()) }()
	other := fsnotify.Event{Name: filepath.Join(dir, "lockstep.db-wal"), Op: fsnotify.Write}
	for _, c := range []struct {
		name string
		op   fsnotify.Op
		want bool
	}{
		{"lockstep.db-wal", fsnotify.Write, false}, {"lockstep.db", fsnotify.Write | fsnotify.Chmod, false}, {"lockstep.db-wal", fsnotify.Create, true},
		{"..data", fsnotify.Rename, true}, {"x", fsnotify.Remove | fsnotify.Write, true},
		{"a.yaml", fsnotify.Write, true}, {"target.yaml", fsnotify.Write, true}, {"secret.env", fsnotify.Write, true}, {"b[1].yaml", fsnotify.Write, true}, {"a.yaml", fsnotify.Chmod, true},
	} {
		events <- fsnotify.Event{Name: filepath.Join(dir, c.name), Op: c.op}
		events <- other // the one before was taken care of
		if got := len(w.changed) > 0; got != c.want {
			t.Errorf("%s, %v: a change is %v", c.name, c.op, got)
		}
		for len(w.changed) > 0 {
			<-w.changed
		}
	}
	errs <- fsnotify.ErrEventOverflow
	events <- other
	if len(w.changed) == 0 {
		t.Error("after an overflow nobody looks")
	}
	close(events)
	<-ended
}

// Run ends with its context, and by Close, which leaves no goroutine.
func TestClose(t *testing.T) {
	for name, end := range map[string]func(w *Watcher, stop context.CancelFunc) error{
		"by Close":        func(w *Watcher, _ context.CancelFunc) error { return w.Close() },
		"by its context":  func(_ *Watcher, stop context.CancelFunc) error { stop(); return nil },
		"by both at once": func(w *Watcher, stop context.CancelFunc) error { stop(); return w.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			w, err := NewWatcher()
			if err != nil {
				t.Fatal(err)
			}
			if err := w.Watch(filepath.Join(t.TempDir(), "a")); err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			ended := make(chan struct{})
			go func() { defer close(ended); w.Run(ctx) }()
			if err := end(w, stop); err != nil {
				t.Error(err)
			}
			select {
			case <-ended:
			case <-time.After(10 * time.Second):
				t.Fatal("Run goes on")
			}
			if err := w.Close(); err != nil {
				t.Error(err)
			}
			await.Until(t, "no goroutine is left", func() bool { // what has told Close may still be returning
				stacks := make([]byte, 1<<20)
				return !strings.Contains(string(stacks[:runtime.Stack(stacks, true)]), "fsnotify.")
			})
		})
	}
}

// A folder that cannot be watched is an error, and the others are watched.
func TestAFolderThatCannotBeWatched(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "file"), "")
	w, err := NewWatcher()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	loop := filepath.Join(dir, "loop")
	if err := os.Symlink("loop", loop); err != nil {
		t.Fatal(err)
	}
	if err := w.Watch(filepath.Join(loop, "a"), filepath.Join(dir, "b")); err == nil || !strings.Contains(err.Error(), "symbolic links") {
		t.Error(err)
	}
	if got := w.system.WatchList(); len(got) != 1 || got[0] != dir {
		t.Errorf("watched are %q", got)
	}
}
