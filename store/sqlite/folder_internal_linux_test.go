package sqlite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lockstep-scheduler/lockstep/store"
)

// A folder on a file system of several machines is refused, and the error says which one it is and what to do.
func TestRemoteFoldersAreRefused(t *testing.T) {
	dir := t.TempDir()
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		t.Fatal(err)
	}
	kind := uint32(fs.Type) //nolint:gosec // as localFolder does
	before, was := remote[kind]
	remote[kind] = "NFS"
	defer func() {
		if delete(remote, kind); was {
			remote[kind] = before
		}
	}()
	_, err := store.Open(t.Context(), store.SQLite, filepath.Join(dir, "a.db"), store.Options{})
	if err == nil || !strings.Contains(err.Error(), dir+" is on NFS: SQLite needs a local disk; use MySQL") {
		t.Error(err)
	}
}

// The error of a full disk or quota says what to do, and any other error stays as it is.
func TestAFullFolderSaysWhatToDo(t *testing.T) {
	for err, full := range map[error]bool{
		unix.ENOSPC: true, unix.EDQUOT: true, unix.EFBIG: true, unix.EIO: false, unix.EACCES: false,
	} {
		got := noRoom(fmt.Errorf("nothing can be written: %w", err))
		if !errors.Is(got, err) || strings.Contains(got.Error(), "make room on its disk") != full {
			t.Errorf("%v: %v", err, got)
		}
	}
}

// unprivileged runs fn with no more rights than those of files give: root has others, too.
func unprivileged(t *testing.T, fn func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread, which has lost rights, ends
		head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var rights [2]unix.CapUserData
		if err := unix.Capget(&head, &rights[0]); err != nil {
			t.Error(err)
			return
		}
		const some = 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_DAC_READ_SEARCH
		rights[0].Effective &^= some
		rights[0].Permitted &^= some
		if err := unix.Capset(&head, &rights[0]); err != nil {
			t.Error(err)
			return
		}
		fn()
	}()
	<-done
}

// What this process may not write is refused before it is opened, by its name.
func TestFilesWithoutRightsAreRefused(t *testing.T) {
	for _, c := range []struct {
		file string // "": the folder
		mode os.FileMode
		want string
	}{
		{"a.db", 0o600, ""},
		{"a.db", 0o400, "DIR/a.db cannot be written: permission denied"},
		{"a.db", 0o200, "cannot be opened: permission denied"},
		{"a.db-wal", 0o400, "a.db-wal cannot be written: permission denied"},
		{"a.db-shm", 0o400, "a.db-shm cannot be written: permission denied"},
		{"a.db-turn", 0o400, "a.db-turn cannot be written: permission denied"},
		{"", 0o500, "no files can be made in DIR: "},
		{"", 0o600, "permission denied"},
	} {
		dir := filepath.Join(t.TempDir(), "store")
		path := filepath.Join(dir, "a.db")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		s, err := store.Open(t.Context(), store.SQLite, path, store.Options{})
		if err == nil {
			err = errors.Join(s.Migrate(t.Context()), s.Close())
		}
		if err == nil {
			err = errors.Join(os.WriteFile(path+"-wal", nil, 0o600), os.WriteFile(path+"-shm", nil, 0o600))
		}
		if err = errors.Join(err, os.Chmod(filepath.Join(dir, c.file), c.mode)); err != nil {
			t.Fatal(err)
		}
		var checked error
		t.Chdir(filepath.Dir(dir))
		unprivileged(t, func() { checked = Check(filepath.Join("store", "a.db")) })
		if err := os.Chmod(dir, 0o700); err != nil { //nolint:gosec // so that it can be removed
			t.Fatal(err)
		}
		c.want = strings.ReplaceAll(c.want, "DIR", dir)
		if c.want == "" && checked != nil || c.want != "" && (checked == nil || !strings.Contains(checked.Error(), c.want)) {
			t.Errorf("%s with the rights %v: %v, want %q", c.file, c.mode, checked, c.want)
		}
	}
}
