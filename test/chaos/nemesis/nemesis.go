//go:build linux

// Package nemesis injects faults into an arena, shows from outside that they have an effect, and heals them.
//
//	Strike ──▶ wait for a moment that fits ──▶ fault applied ──▶ Heal: restore, and say what was seen
package nemesis

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/arena"
	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// Nemesis is one fault.
type Nemesis struct {
	Name  string // as in "sigstop-parent"
	Kinds []history.Kind
	// Spares says that running work must not be lost by it.
	Spares bool
	// Hold is how long it lasts; 0: as long as the run's windows.
	Hold time.Duration
	// Long nemeses are struck in long runs only.
	Long bool
	Fits func(arena.Cell) bool // nil: every cell
	// Clocks says that the arena must have been opened with clocks.
	Clocks bool
	// Machine says that it affects all processes of the machine, other cells too.
	Machine bool
	// Strike injects the fault; it may wait, within ctx, for a moment that fits. An error says that nothing was
	// done. Whatever it started ends in Heal.
	Strike strike

	subject subject
	waits   bool          // for a replica to do something
	leaves  bool          // no replica that another nemesis could strike
	idles   bool          // no replica claims or decides meanwhile
	ahead   time.Duration // how far it sets the database's clock ahead
}

// What is excused while one of the two services is down, slow or far away.
var (
	lockDown  = []history.Kind{history.LockDown}
	lockGone  = []history.Kind{history.LockDown, history.LockGone}
	lockSlow  = []history.Kind{history.LockSlow}
	storeDown = []history.Kind{history.StoreDown}
	storeSlow = []history.Kind{history.StoreSlow}
	storeFar  = []history.Kind{history.StoreFar}
)

// subject is what a nemesis breaks. Two with the same subject exclude each other.
type subject int

const (
	other subject = iota
	replica
	storeEdge
	lockEdge
	store
	lock
	worker
)

// Struck is the result of a strike.
type Struck struct {
	Replicas []string // which it affects, or workers; none: all replicas
	// Kinds are excuses of this strike alone, beside the nemesis's own.
	Kinds []history.Kind
	Ahead time.Duration // how far the database's clock was set ahead
	// Heal ends the fault and returns when the servers and processes that it affected run again. applied says
	// that the fault was seen from outside, evidence what was seen.
	Heal heal
}

type (
	strike = func(ctx context.Context, a *arena.Arena, r *rand.Rand) (Struck, error)
	heal   = func(ctx context.Context) (applied bool, evidence string, err error)
)

// FitsIn reports whether n can strike in a cell.
func (n Nemesis) FitsIn(c arena.Cell) bool { return n.Fits == nil || n.Fits(c) }

// done is the result of a strike that needs no healing.
func done(applied bool, evidence string) Struck {
	return Struck{Heal: func(context.Context) (bool, string, error) { return applied, evidence, nil }}
}
