//go:build unix

package exechandler

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// folders are the private folders of attempts, all in one of this process, which is there as long as one of them is:
//
//	$TMPDIR/lockstep-attempts-*/   locked by its process
//	  ├── */                       of one attempt
//
// All have the mode 0700 and names that nobody can know before. The lock ends with its process, however that ends: so what a
// killed process left is found, and is removed when the next one needs its first folder. That the names of temporary folders can be seen and
// taken by other users does no harm: nothing is opened that is a link or belongs to another user, and nothing but one's own is removed.
type folders struct {
	temp string // default os.TempDir()

	mu     sync.Mutex
	swept  bool
	path   string
	locked *os.File // the folder at path
	used   int
}

// ours are those of this process.
var ours folders

const foldersPrefix = "lockstep-attempts-"

// make makes a folder for one attempt. Call remove with it.
func (f *folders) make() (dir string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.temp == "" {
		f.temp = os.TempDir()
	}
	if !f.swept {
		f.swept = true
		sweep(f.temp)
	}
	for range 3 { // what is not yet locked may be swept by another process, and a cleaner may remove what is old
		if f.locked == nil {
			if err = f.open(); err != nil {
				continue
			}
		}
		if dir, err = os.MkdirTemp(f.path, ""); err == nil {
			f.used++
			return dir, nil
		}
		if f.used == 0 || errors.Is(err, fs.ErrNotExist) {
			f.close()
		}
	}
	return "", err
}

// remove removes the folder of an attempt, with what is in it. Links in it are removed, and not followed.
func (f *folders) remove(dir string) {
	removeAll(dir)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.used--; f.used == 0 {
		f.close()
	}
}

// open makes and locks the folder of the process. The caller holds f.mu.
func (f *folders) open() error {
	path, err := os.MkdirTemp(f.temp, foldersPrefix)
	if err != nil {
		return err
	}
	locked, err := lockFolder(path)
	if err != nil {
		_ = os.Remove(path)
		return err
	}
	if !is(path, locked) {
		_ = locked.Close()
		return fs.ErrNotExist
	}
	f.path, f.locked = path, locked
	return nil
}

// close removes the folder of the process, in which attempts have none any more, and then lets it go. The caller holds f.mu.
func (f *folders) close() {
	if f.locked == nil {
		return
	}
	if is(f.path, f.locked) {
		removeAll(f.path)
	}
	_ = f.locked.Close()
	f.path, f.locked = "", nil
}

// sweep removes folders of this user whose processes are gone.
func sweep(temp string) {
	entries, _ := os.ReadDir(temp) // those that were read before an error, too
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), foldersPrefix) {
			continue
		}
		path := filepath.Join(temp, e.Name())
		if locked, err := lockFolder(path); err == nil {
			removeAll(path)
			_ = locked.Close()
		}
	}
}

// lockFolder locks a folder of this user that no process has locked. A link is none.
func lockFolder(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	err = fs.ErrPermission
	if info, failed := f.Stat(); failed == nil && ownedByUs(info) {
		err = flock(f)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

func ownedByUs(info fs.FileInfo) bool {
	stat, known := info.Sys().(*syscall.Stat_t)
	return known && int(stat.Uid) == os.Getuid()
}

// is reports whether the folder is at that path.
func is(path string, folder *os.File) bool {
	there, err := os.Lstat(path)
	open, failed := folder.Stat()
	return err == nil && failed == nil && os.SameFile(there, open)
}

// removeAll removes a folder with what is in it, also where a command has left folders that cannot be written.
func removeAll(dir string) {
	if os.RemoveAll(dir) == nil {
		return
	}
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() { // before it is read; a link is no folder here
			_ = os.Chmod(path, 0o700)
		}
		return nil
	})
	_ = os.RemoveAll(dir)
}
