package main

import (
	"path/filepath"
	"testing"

	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// Doctor reports a full disk, with and without an existing database.
func TestDoctorSeesAFullDisk(t *testing.T) {
	t.Parallel()
	disk, ok := servers.NewDisk(t, 8<<20)
	if !ok {
		t.Log("this user may not mount: nothing to hold")
		return
	}
	dir, file := t.TempDir(), filepath.Join(disk.Dir, "lockstep.db")
	full := func(want int) {
		t.Helper()
		all, code := runDoctor(t, dir, "store: {dsn: "+file+"}")
		if code != want {
			t.Errorf("exit code %d, want %d: %v", code, want, all)
		}
		if want != 0 {
			wantFinding(t, all, "problem store: ", "make room")
		}
		if left, _ := filepath.Glob(filepath.Join(disk.Dir, ".*")); len(left) > 0 {
			t.Errorf("it has left %v", left)
		}
	}
	for _, there := range []bool{false, true} {
		if there {
			if err := migrated(t, "sqlite", file).Close(); err != nil {
				t.Fatal(err)
			}
		}
		full(0)
		if err := disk.Fill(); err != nil {
			t.Fatal(err)
		}
		full(1)
		if err := disk.Free(); err != nil {
			t.Fatal(err)
		}
	}
}
