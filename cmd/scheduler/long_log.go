package main

import (
	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/config"
	"github.com/lockstep-scheduler/lockstep/store/sqlite"
)

// withLongLog adds to conditions that the write-ahead log of a store in a file is far too large: the disk fills, and nothing else
// would say so before it is full. It keeps no replica from its work.
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
