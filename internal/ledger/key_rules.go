package ledger

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/naming"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// KeyRules are what a pool has by key and by kind.
type KeyRules struct {
	PerKey  jobs.KeyLimits
	PerKind map[string]jobs.KindLimits
	Order   jobs.Order
	Fair    *jobs.Fair // nil: the keys do not share the pool
}

// Under returns the rules of a definition with what an override sets in their place, but for what is set aside, see Aside. The order of a
// pool, and whether its keys share it, are those of the definition.
func (k KeyRules) Under(o *wire.PoolLimits) KeyRules {
	if o == nil {
		return k
	}
	if o.PerKey != nil {
		l := *o.PerKey
		if k.refusesMaxRunning(l) {
			l.MaxRunning = nil
		}
		k.PerKey = l.Over(k.PerKey)
	}
	if len(o.PerKind) > 0 && !k.refusesKinds() {
		all := maps.Clone(k.PerKind)
		if all == nil {
			all = map[string]jobs.KindLimits{}
		}
		for kind, l := range o.PerKind {
			all[kind] = jobs.KindLimits(l.Over(jobs.KeyLimits(all[kind])))
		}
		k.PerKind = all
	}
	if o.Fair != nil && k.Fair != nil {
		weights := maps.Clone(k.Fair.Weights)
		if weights == nil {
			weights = map[string]int{}
		}
		maps.Copy(weights, o.Fair.Weights)
		k.Fair = &jobs.Fair{Weights: weights}
	}
	return k
}

func (k KeyRules) refusesKinds() bool { return k.Order == jobs.OrderKey || k.Fair != nil }

func (k KeyRules) refusesMaxRunning(l wire.LimitFields) bool {
	return k.Order == jobs.OrderKey && l.MaxRunning != nil && *l.MaxRunning > 1
}

const notFair = "the keys of the pool do not share it; write fair into its definition first"

// Aside is what of an override does not hold under the definition, sorted: of an override that was set under another definition, since
// Check refuses it of a new one.
func (k KeyRules) Aside(o *wire.PoolLimits) (all []wire.LimitAside) {
	if o == nil {
		return nil
	}
	if o.Fair != nil && k.Fair == nil {
		all = append(all, wire.LimitAside{Field: "fair", Why: notFair})
	}
	if o.PerKey != nil && k.refusesMaxRunning(*o.PerKey) {
		all = append(all, wire.LimitAside{Field: "per_key.max_running", Why: problemOf(k.check(wire.PoolLimits{PerKey: o.PerKey}, nil))})
	}
	if len(o.PerKind) > 0 && k.refusesKinds() {
		all = append(all, wire.LimitAside{Field: "per_kind", Why: problemOf(k.check(wire.PoolLimits{PerKind: o.PerKind}, nil))})
	}
	return all
}

// Check returns what a pool with this definition may not have of a request, as a [*jobs.FieldError] whose path is the JSON key, in the words that
// refuse it in a configuration. kinds are those of the pool, "" for tasks without a kind; nil, or empty: it is not known. Its numbers were checked.
func (k KeyRules) Check(o wire.PoolLimits, kinds []string) error {
	if o.Fair != nil && len(o.Fair.Weights) > 0 && k.Fair == nil {
		return &jobs.FieldError{Path: "fair.weights", Problem: notFair}
	}
	for _, kind := range slices.Sorted(maps.Keys(o.PerKind)) {
		if problem := naming.Problem(kind); problem != "" && len(kinds) == 0 {
			return &jobs.FieldError{Path: "per_kind." + kind, Problem: problem}
		}
	}
	return k.check(o, kinds)
}

func (k KeyRules) check(o wire.PoolLimits, kinds []string) error {
	p := jobs.Pool{Order: k.Order, Fair: k.Fair, PerKind: map[string]jobs.KindLimits{}, Kinds: map[string]jobs.Handler{}}
	if o.PerKey != nil && k.refusesMaxRunning(*o.PerKey) {
		p.PerKey.MaxRunning = *o.PerKey.MaxRunning
	}
	for kind := range o.PerKind {
		p.PerKind[kind] = jobs.KindLimits{}
	}
	for _, kind := range kinds {
		if kind == "" {
			p.Handler = elsewhere{}
		} else {
			p.Kinds[kind] = elsewhere{}
		}
	}
	err := jobs.Set{Pools: map[string]jobs.Pool{"p": p}}.Validate()
	if wrong, ok := errors.AsType[*jobs.FieldError](err); ok {
		return &jobs.FieldError{Path: strings.TrimPrefix(wrong.Path, "pools.p."), Problem: wrong.Problem}
	}
	return err
}

func problemOf(err error) string {
	if wrong, ok := errors.AsType[*jobs.FieldError](err); ok {
		return wrong.Problem
	}
	return ""
}
