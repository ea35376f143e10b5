//go:build unix

package sqlite_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/lockstep-scheduler/lockstep/store/sqlite"
)

// SQLite has the log beside the file that a link leads to, and the file of turns is beside the link.
func TestExposed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, link, me := filepath.Join(dir, "real.db"), filepath.Join(dir, "link.db"), os.Geteuid()
	for _, name := range []string{file, file + "-wal", file + "-shm", link + "-turn", link + "-wal"} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name            string
		mode            os.FileMode
		problem, remedy string
		write           bool
	}{
		{file, 0o604, link + " can be read by others (mode 0604)", "chmod 600 " + link, false},
		{file + "-wal", 0o604, file + "-wal can be read by others (mode 0604)", "chmod 600 " + file + "-wal", false},
		{file + "-shm", 0o602, file + "-shm can be written by others (mode 0602)", "chmod 600 " + file + "-shm", true},
		{link + "-turn", 0o606, link + "-turn can be written by others (mode 0606)", "chmod 600 " + link + "-turn", true},
		{link + "-wal", 0o606, "", "", false}, // no log of this
	} {
		if err := os.Chmod(c.name, c.mode); err != nil {
			t.Fatal(err)
		}
		if c.remedy != "" {
			c.remedy += ", and see that the user of the replicas owns them"
		}
		if problem, remedy, write := sqlite.Exposed(link, me); problem != c.problem || remedy != c.remedy || write != c.write {
			t.Errorf("%+v: %q, %q, %v", c, problem, remedy, write)
		}
		if err := os.Chmod(c.name, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{file, file + "-wal"} {
		if err := os.Chmod(name, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want := link + " can be read by others (mode 0644); " + file + "-wal can be read by others (mode 0644)"
	if problem, _, write := sqlite.Exposed(link, me); problem != want || write {
		t.Errorf("%q, %v", problem, write)
	}
	if problem, _, _ := sqlite.Exposed(filepath.Join(dir, "none.db"), me); problem != "" {
		t.Error(problem)
	}
}
