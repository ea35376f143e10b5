package filewatch

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/fsnotify/fsnotify"
)

// Watcher tells that something has changed in the folders of files, as the system reports it. It watches folders, since editors replace
// files, and since a file may be a symbolic link whose target's folder is replaced, as in volumes of Kubernetes. It may report what changes
// no file, and may miss what changes one, on network file systems for example: compare contents, and look by yourself now and then.
type Watcher struct {
	system  *fsnotify.Watcher
	changed chan struct{}
}

// NewWatcher watches nothing yet. Close it.
func NewWatcher() (*Watcher, error) {
	system, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	return &Watcher{system, make(chan struct{}, 1)}, nil
}

// Close ends Run.
func (w *Watcher) Close() error { return w.system.Close() }

// Changed has a value after a change.
func (w *Watcher) Changed() <-chan struct{} { return w.changed }

// Run passes on what the system reports, until ctx is done or Close is called.
//
//  1. wait for a report, or for an error of the system: something may have changed unseen
//  2. leave a value in Changed, if there is none
func (w *Watcher) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case _, open := <-w.system.Events:
			if !open {
				return
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

// Watch watches the folders of these files, and those of what they link to, and no others. The error is about folders that it does not
// watch.
func (w *Watcher) Watch(files ...string) error {
	wanted := map[string]bool{}
	for _, file := range files {
		wanted[filepath.Dir(file)] = true
		if target, err := filepath.EvalSymlinks(file); err == nil {
			wanted[filepath.Dir(target)] = true
		}
	}
	var all []error
	for _, folder := range w.system.WatchList() {
		if !wanted[folder] {
			_ = w.system.Remove(folder) // it may have gone
		}
	}
	watched := w.system.WatchList()
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
