package main

import (
	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/config"
	"github.com/lockstep-scheduler/lockstep/store/sqlite"
)

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
