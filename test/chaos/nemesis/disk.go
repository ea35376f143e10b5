//go:build linux

package nemesis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"syscall"

	"github.com/lockstep-scheduler/lockstep/test/chaos/arena"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// disks fill the disk of SQLite's file. Reading goes on; nothing starts until there is room again. Those of
// MariaDB are among databases.
func disks() []Nemesis {
	return []Nemesis{{Name: "disk-full", subject: store, Kinds: storeDown, Spares: true, Fits: onSQLite, Strike: fillDisk}}
}

func fillDisk(_ context.Context, a *arena.Arena, _ *rand.Rand) (Struck, error) {
	if a.Disk == nil {
		return limitFiles(a)
	}
	if err := a.Disk.Fill(); err != nil {
		return Struck{}, errors.Join(err, a.Disk.Free())
	}
	return Struck{Heal: func(context.Context) (bool, string, error) {
		room, err := a.Disk.Room()
		return err == nil && room == 0, fmt.Sprintf("%d bytes of room", room), errors.Join(err, a.Disk.Free())
	}}, nil
}

// More than any table has left when the disk is full.
const (
	ballastTable = "CREATE TABLE IF NOT EXISTS chaos_ballast (x VARCHAR(4000))"
	ballast      = "INSERT INTO chaos_ballast SELECT REPEAT('x', 4000) FROM seq_1_to_2000"
)

// fillDisk fills the disk of the server. Then it refuses what needs a new page, waits, or ends; a supervisor
// starts it again when there is room.
func (b base) fillDisk(ctx context.Context, a *arena.Arena, _ *rand.Rand) (Struck, error) {
	s := b.server(a)
	full, free := fullDisk(ctx, s)
	if err := b.try(ctx, a, ballastTable); err != nil {
		return Struck{}, err
	}
	if err := full(); err != nil {
		return Struck{}, err
	}
	return Struck{Heal: func(ctx context.Context) (bool, string, error) {
		refused := b.try(ctx, a, ballast)
		if err := free(); err != nil {
			return false, "", err
		}
		ends, err := b.revive(ctx, a)
		return refused != nil, fmt.Sprintf("a replica's write: %v; it ended %d times", refused, ends), errors.Join(err, b.try(ctx, a, "TRUNCATE TABLE chaos_ballast"))
	}}, nil
}

// fullDisk fills the disk of a server, and frees it. A server without a disk of its own gets a limit on the
// size of its files.
func fullDisk(ctx context.Context, s *servers.MySQLServer) (full, free func() error) {
	if s.Disk != nil {
		return s.Disk.Fill, s.Disk.Free
	}
	pid := s.PID()
	return func() error { return limitFileSize(ctx, pid, "0") }, func() error {
		if state(pid) == "" {
			return nil
		}
		return limitFileSize(context.WithoutCancel(ctx), pid, "unlimited")
	}
}

// limitFileSize sets a soft limit as the user that the process runs as: root in a container may not.
func limitFileSize(ctx context.Context, pid int, size string) error {
	cmd := exec.CommandContext(ctx, "prlimit", "--pid", strconv.Itoa(pid), "--fsize="+size+":")
	var owner syscall.Stat_t
	if err := syscall.Stat("/proc/"+strconv.Itoa(pid), &owner); err != nil {
		return fmt.Errorf("limit process %d: %w", pid, err)
	}
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: owner.Uid, Gid: owner.Gid}}
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("limit process %d: %w: %s", pid, err, out)
	}
	return nil
}

// revive returns when the server takes writes again, and how often it was started. It may still be about to end
// from an earlier error.
func (b base) revive(ctx context.Context, a *arena.Arena) (starts int, err error) {
	takes := poll(ctx, 0, seldom, func() bool {
		if b.server(a).PID() == 0 {
			b.server(a).Start() //nolint:contextcheck // it has a time limit of its own
			starts++
		}
		err = b.try(ctx, a, ballast)
		return err == nil
	})
	if !takes {
		err = fmt.Errorf("MariaDB has room, and takes nothing: %w", err)
	}
	return starts, err
}
