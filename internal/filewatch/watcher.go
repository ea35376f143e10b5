package filewatch

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/fsnotify/fsnotify"
)

// Watcher tells that something has changed in the folders of files, as the system reports it. It watches folders, since editors replace
// files, and since a file may be a symbolic link whose target's folder is replaced, as in volumes of Kubernetes. It may report what changes
// no file, and may miss what changes one: on network file systems, and where a link above a folder is replaced, for example. So compare
// contents, and look by yourself now and then.
type Watcher struct {
	system  *fsnotify.Watcher
	changed chan struct{}

	mu    sync.Mutex
	names []string // of the files, without their folders
}

// NewWatcher watches nothing yet. Close it.
func NewWatcher() (*Watcher, error) {
	system, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	return &Watcher{system: system, changed: make(chan struct{}, 1)}, nil
}

// Close ends Run, and leaves no goroutine of its own.
func (w *Watcher) Close() error { return w.system.Close() }

// Changed has a value after a change.
func (w *Watcher) Changed() <-chan struct{} { return w.changed }

// Run passes on what the system reports, until ctx is done or Close is called.
//
//  1. wait for a report, or for an error of the system: something may have changed unseen
//  2. leave out a write to another file: databases and logs may be in the folder
//  3. leave a value in Changed, if there is none
//
// It watches nothing anew: the system may hold a lock until its report is taken.
func (w *Watcher) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case event, open := <-w.system.Events:
			if !open {
				return
			}
			if w.others(event) {
				continue
			}
		case _, open := <-w.system.Errors: // such as an overflow
			if !open {
				return
			}
		}
		select {
		case w.changed <- struct{}{}:
		default:
		}
	}
}

// others reports whether an event is a write to a file whose name no watched file has.
func (w *Watcher) others(event fsnotify.Event) bool {
	if event.Op&^(fsnotify.Write|fsnotify.Chmod) != 0 {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	base := filepath.Base(event.Name)
	return !slices.ContainsFunc(w.names, func(name string) bool {
		match, _ := filepath.Match(name, base)
		return match || name == base
	})
}

// Watch watches the folders of these files, and those of what they link to, and no others; in place of a folder that does not exist, the nearest
// one above it. A file may be a pattern of [filepath.Glob]. Call it after each change, before you look: folders may have come, or be others now. The
// error is about folders that it does not watch.
func (w *Watcher) Watch(files ...string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.names = w.names[:0]
	for _, file := range files {
		w.names = append(w.names, filepath.Base(file))
		if target, err := filepath.EvalSymlinks(file); err == nil {
			w.names = append(w.names, filepath.Base(target))
		}
	}
	for wanted := foldersOf(files); ; {
		err := w.only(wanted)
		now := foldersOf(files)
		if maps.Equal(now, wanted) { // else one came before that above it was watched
			return err
		}
		wanted = now
	}
}

// only watches these folders, and no others.
func (w *Watcher) only(wanted map[string]bool) error {
	for _, folder := range w.system.WatchList() {
		if !wanted[folder] {
			_ = w.system.Remove(folder) // it may have gone
		}
	}
	watched := w.system.WatchList()
	var all []error
	for folder := range wanted {
		if slices.Contains(watched, folder) {
			continue
		}
		if err := w.system.Add(folder); err != nil && !errors.Is(err, fs.ErrNotExist) {
			all = append(all, err)
		}
	}
	return errors.Join(all...)
}

// foldersOf are the folders to watch for files.
func foldersOf(files []string) map[string]bool {
	all := map[string]bool{}
	for _, file := range files {
		folder := filepath.Dir(file)
		all[nearest(folder)] = true
		found, _ := filepath.Glob(folder) // of a pattern
		for _, each := range found {
			all[each] = true
		}
		if target, err := filepath.EvalSymlinks(file); err == nil {
			all[filepath.Dir(target)] = true
		}
	}
	return all
}

// nearest is a folder, or the nearest one above it that exists.
func nearest(folder string) string {
	for above := filepath.Dir(folder); above != folder; folder, above = above, filepath.Dir(above) {
		if _, err := os.Stat(folder); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return folder
}
