package ledger

import (
	"context"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/abort"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// KindsOf are the kinds of the tasks that a pool has a handler for, sorted; "" is for those without a kind.
func KindsOf(p jobs.Pool) []string {
	kinds := slices.AppendSeq([]string{}, maps.Keys(p.Kinds))
	if p.Handler != nil {
		kinds = append(kinds, "")
	}
	slices.Sort(kinds)
	return kinds
}

// ByWorkers reports whether workers run the tasks of a kind, by the hash that PoolDef has for it.
func ByWorkers(hash string) bool { return strings.HasPrefix(hash, "worker:") }

// DeclaredKinds are those of a pool that a program declares: nil, which is any kind, if it says nothing of them.
func DeclaredKinds(p jobs.Pool) []string {
	if p.Handler == nil && len(p.Kinds) == 0 {
		return nil
	}
	return KindsOf(p)
}

// SharedKinds are the kinds of a pool that a configuration has the same handlers for as the one that governs, sorted: what its
// replicas may run although the definitions of the pool differ. Both are hashes of handlers by kind, as in PoolDef.
func SharedKinds(own, governing map[string]string) []string {
	shared := []string{}
	for kind, hash := range own {
		if governing[kind] == hash {
			shared = append(shared, kind)
		}
	}
	slices.Sort(shared)
	return shared
}

// Declared gives the kinds without a handler one, so that the pools of a program that only enqueues are valid.
func Declared(pools map[string]jobs.Pool) map[string]jobs.Pool {
	all := map[string]jobs.Pool{}
	for name, p := range pools {
		kinds := maps.Clone(p.Kinds)
		for kind, h := range kinds {
			if h == nil {
				kinds[kind] = elsewhere{}
			}
		}
		p.Kinds = kinds
		all[name] = p
	}
	return all
}

// elsewhere is a handler that another process has.
type elsewhere struct{}

func (elsewhere) Run(context.Context, jobs.Task, io.Writer) error { return abort.ErrNotStarted }

// Unrunnable are tasks of one kind in one pool that are due and that no live replica has a handler for.
type Unrunnable struct {
	Kind  string    // "": they have none, or the whole pool is one that no live configuration has
	Tasks int       // of those that were looked at: the first of the pool in the order of claims
	Since time.Time // the earliest run_at
}

// GiveHandler is what to do about a pool without a handler.
const GiveHandler = "give it http, command, shell, func or worker, or kinds, under pools"
