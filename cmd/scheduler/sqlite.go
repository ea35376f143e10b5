package main

import (
	"log/slog"
	"os"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/config"
	"github.com/lockstep-scheduler/lockstep/store/sqlite"
)

// logExposed logs that other users may access the store's files. They are used all the same: older programs and backups
// may have left them so.
func logExposed(c config.Store, log *slog.Logger) {
	exposed, remedy, write := exposedStore(c, os.Geteuid())
	switch {
	case write:
		log.Error(exposure(write), "why", exposed, "do", remedy)
	case exposed != "":
		log.Warn(exposure(write), "why", exposed, "do", remedy)
	}
}

// exposedStore is sqlite.Exposed; nothing for other stores.
func exposedStore(c config.Store, user int) (exposed, remedy string, write bool) {
	if c.Driver != config.SQLite || c.DSN == ":memory:" {
		return "", "", false
	}
	return sqlite.Exposed(c.DSN, user)
}

func exposure(write bool) string {
	if write {
		return "insecure: others can write the store, and so make jobs run"
	}
	return "insecure: others can read the store"
}

// withLongLog adds a condition for a write-ahead log of a SQLite store that is far too large, before it fills the disk.
// The replica stays ready.
func withLongLog(conditions func() []wire.Condition, c config.Store) func() []wire.Condition {
	if c.Driver != config.SQLite {
		return conditions
	}
	return func() []wire.Condition {
		all := conditions()
		if long := sqlite.LongLog(c.DSN); long != "" {
			all = append(all, wire.Condition{Name: "log", Ready: true, Detail: long})
		}
		return all
	}
}
