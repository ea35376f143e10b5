package store

import (
	"github.com/lockstep-scheduler/lockstep/internal/filewatch"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
)

// Sides are the parts of a Store that scheduler.New, api.New and metrics.New use. Programs have no use for them: they change
// between versions.
func (s *Store) Sides() ledger.Sides {
	return ledger.Sides{Replica: replica{s}, API: views{s}, Audit: views{s}, Admin: admin{s}}
}

type (
	replica struct{ *Store } // as package scheduler has it
	views   struct{ *Store } // as packages api and metrics have it
	admin   struct{ *Store } // as commands have it
)

// Local reports whether all processes that share the store run on this machine, so that they are suspended with it.
func (s replica) Local() bool { return s.db != nil && s.db.Dialect.Local() }

// Writes sees each transaction of a SQLite file in its log.
func (s replica) Writes() ledger.Writes {
	if s.gate == nil {
		return nil
	}
	return filewatch.NewFile(s.gate.path)
}
