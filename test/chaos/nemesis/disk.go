package nemesis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/lockstep-scheduler/lockstep/test/chaos/arena"
)

// disks take the room for SQLite's file. Reading goes on; nothing starts until there is room again.
func disks() []Nemesis {
	return []Nemesis{spared(Nemesis{Name: "disk-full", subject: store, Kinds: storeDown, Fits: onSQLite, Strike: fillDisk})}
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
