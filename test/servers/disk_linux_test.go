package servers_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// A full disk takes nothing more, keeps what it has, and takes it again when there is room.
func TestDisk(t *testing.T) {
	d, ok := servers.NewDisk(t, 1<<20)
	if !ok {
		t.Log("this user may not mount: nothing to hold")
		return
	}
	file := filepath.Join(d.Dir, "file")
	write := func() error { return os.WriteFile(file, make([]byte, 8<<10), 0o600) }
	for range 2 {
		if err := write(); err != nil {
			t.Fatal(err)
		}
		if err := d.Fill(); err != nil {
			t.Fatal(err)
		}
		if room, err := d.Room(); err != nil || room != 0 {
			t.Errorf("%d bytes of room, %v", room, err)
		}
		if err := os.WriteFile(file+"2", []byte("x"), 0o600); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("a write to a full disk: %v", err)
		}
		if text, err := os.ReadFile(file); err != nil || len(text) != 8<<10 {
			t.Errorf("%d bytes are left, %v", len(text), err)
		}
		if err := d.Free(); err != nil {
			t.Fatal(err)
		}
	}
}
