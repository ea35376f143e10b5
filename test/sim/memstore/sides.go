package memstore

import (
	"context"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
)

// Namespace is empty: the database of a simulation has no other beside it.
func (s *Store) Namespace(context.Context) (string, error) { return "", nil }

// Listen never calls: the replicas of a simulation, and of tests in a bubble, poll.
func (s *Store) Listen(func(pools ...string)) (stop func()) { return func() {} }

// Local says that replicas are judged by the clock that goes on while a machine sleeps.
func (s *Store) Local() bool { return false }

// Writes is nil: the replicas of a simulation, and of tests in a bubble, poll.
func (s *Store) Writes() ledger.Writes { return nil }
