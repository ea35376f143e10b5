package servers_test

import (
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/await"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// A full disk refuses writes, keeps its data, and takes writes again when there is room.
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

// A test binary that is killed leaves no disk behind.
func TestDisksGoWithTheBinary(t *testing.T) {
	if file := os.Getenv("LOCKSTEP_TEST_DISK_FILE"); file != "" {
		d, ok := servers.NewDisk(t, 1<<20)
		if !ok {
			t.Fatal("the parent may mount")
		}
		if err := os.WriteFile(file, []byte(d.Dir), 0o600); err != nil {
			t.Fatal(err)
		}
		select {}
	}
	if _, ok := servers.NewDisk(t, 1<<20); !ok {
		t.Log("this user may not mount: nothing to hold")
		return
	}
	file := filepath.Join(t.TempDir(), "disk")
	child := exec.Command(os.Args[0], "-test.run=^TestDisksGoWithTheBinary$")
	child.Env = append(os.Environ(), "LOCKSTEP_TEST_DISK_FILE="+file, "TMPDIR="+filepath.Dir(file))
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = child.Process.Kill() }()
	var dir string
	await.Until(t, "the child has a disk", func() bool {
		text, _ := os.ReadFile(file)
		dir = string(text)
		return dir != ""
	})
	_ = child.Process.Kill()
	_ = child.Wait()
	await.Until(t, "the child's disk is gone", func() bool {
		_, err := os.Stat(dir)
		return errors.Is(err, fs.ErrNotExist)
	})
}

// A MariaDB with a full disk takes no more writes: it refuses them, waits or ends. When there is room again it
// has all that it had acknowledged, and takes writes.
func TestMySQLOnDisk(t *testing.T) {
	d, ok := servers.NewDisk(t, 256<<20)
	if !ok {
		t.Log("this user may not mount: nothing to hold")
		return
	}
	s := d.NewMySQL(t, nil)
	db, err := sql.Open("mysql", s.DSN("full")+"?readTimeout=5s")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	insert := func() error {
		_, err := db.ExecContext(t.Context(), "INSERT INTO big SELECT REPEAT('x', 4000) FROM seq_1_to_500")
		return err
	}
	s.Exec("CREATE TABLE full.big (x VARCHAR(4000))")
	if err := errors.Join(insert(), d.Fill()); err != nil {
		t.Fatal(err)
	}
	if first, second := insert(), insert(); first == nil && second == nil {
		t.Error("a full disk took four megabytes")
	} else if room, err := d.Room(); err != nil || room != 0 {
		t.Errorf("%d bytes of room, %v", room, err)
	}
	if err := d.Free(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if s.PID() == 0 {
			s.Start()
		}
		if err = insert(); err == nil || time.Now().After(end) {
			break
		}
	}
	var rows int
	if err := errors.Join(err, db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM big").Scan(&rows)); err != nil || rows < 1000 || rows%500 != 0 {
		t.Errorf("%d rows, %v", rows, err)
	}
}
