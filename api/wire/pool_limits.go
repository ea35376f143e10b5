package wire

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lockstep-scheduler/lockstep/internal/limits"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// PoolLimits are limits of a pool that the API sets in place of those of its definition. Nil fields leave those as they are, field by field:
// a rate of a kind leaves its max_running, and that of other kinds. In a request, what Reset names is removed first, and then the rest is set;
// what a pool shows has no Reset.
type PoolLimits struct {
	MaxRunning *int                   `json:"max_running,omitempty"` // attempts at once in all replicas, 0 to 1,000,000; 0: no limit
	Rate       *jobs.Rate             `json:"rate,omitempty"`        // starts in all replicas, as in "50/s"; "0": no limit
	Burst      *int                   `json:"burst,omitempty"`       // starts at once after a pause, 0 to 1,000,000; 0: those of one second
	PerKey     *LimitFields           `json:"per_key,omitempty"`     // the same of the tasks with one key
	PerKind    map[string]LimitFields `json:"per_kind,omitempty"`    // the same by kind: one that the pool has; neither with order: key nor with fair
	Fair       *Fair                  `json:"fair,omitempty"`        // weights, each 1 to 1,000, of keys that share the pool by its definition; others keep theirs
	// Reset are fields whose setting is removed, so that the definition holds again: "max_running", "per_key" or "per_key.rate", "per_kind",
	// "per_kind.KIND" or "per_kind.KIND.burst", "fair" or "fair.weights.KEY". One that is not set may be named.
	Reset []string `json:"reset,omitempty"`
}

// LimitFields are limits as in [PoolLimits]. Nil fields leave those as they are.
type LimitFields struct {
	MaxRunning *int       `json:"max_running,omitempty"`
	Rate       *jobs.Rate `json:"rate,omitempty"`
	Burst      *int       `json:"burst,omitempty"`
}

// LimitAside is a setting that does not hold: the definition of the pool has changed since, and does not go with it. It holds again when the
// definition lets it.
type LimitAside struct {
	Field string `json:"field"` // as Reset names it
	Why   string `json:"why"`
}

// None reports whether nothing is set, or removed.
func (o PoolLimits) None() bool {
	return o.whole() == (LimitFields{}) && o.PerKey.none() && len(o.PerKind) == 0 && o.weights() == nil && len(o.Reset) == 0
}

func (o PoolLimits) whole() LimitFields { return LimitFields{o.MaxRunning, o.Rate, o.Burst} }

func (o PoolLimits) weights() map[string]int {
	if o.Fair == nil || len(o.Fair.Weights) == 0 {
		return nil
	}
	return o.Fair.Weights
}

func (l *LimitFields) none() bool { return l == nil || *l == LimitFields{} }

// Limits are l with zero for what is not set.
func (l LimitFields) Limits() (all jobs.KeyLimits) { return l.Over(jobs.KeyLimits{}) }

// Over returns limits with what is set in their place.
func (l LimitFields) Over(under jobs.KeyLimits) jobs.KeyLimits {
	if l.MaxRunning != nil {
		under.MaxRunning = *l.MaxRunning
	}
	if l.Rate != nil {
		under.Rate = *l.Rate
	}
	if l.Burst != nil {
		under.Burst = *l.Burst
	}
	return under
}

func (l LimitFields) with(o LimitFields) LimitFields {
	return LimitFields{cmp.Or(o.MaxRunning, l.MaxRunning), cmp.Or(o.Rate, l.Rate), cmp.Or(o.Burst, l.Burst)}
}

// Check returns the first thing that no pool may have, as a [*jobs.FieldError] whose path is the JSON key: a number that is out of
// range, a burst that takes longer than a year to fill at the rate beside it, or that stands beside rate 0, or a reset of no such field.
func (o PoolLimits) Check() error {
	whole := o.whole().Limits()
	p := jobs.Pool{MaxRunning: whole.MaxRunning, Rate: whole.Rate, Burst: whole.Burst, Fair: (*jobs.Fair)(o.Fair)}
	if o.PerKey != nil {
		p.PerKey = o.PerKey.Limits()
	}
	if err := cmp.Or(o.check(p), new(o.whole()).burstAlone("burst"), o.PerKey.burstAlone("per_key.burst")); err != nil {
		return err
	}
	if len(o.PerKind) > limits.SetLimits || len(o.weights()) > limits.SetLimits {
		return &jobs.FieldError{Path: map[bool]string{true: "per_kind", false: "fair.weights"}[len(o.PerKind) > limits.SetLimits], Problem: fmt.Sprintf("sets more than %d; write them into the configuration", limits.SetLimits)}
	}
	for _, kind := range slices.Sorted(maps.Keys(o.PerKind)) {
		l := o.PerKind[kind]
		if l.none() {
			return &jobs.FieldError{Path: "per_kind." + kind, Problem: "sets nothing; send max_running, rate or burst, and 0 for no limit"}
		}
		if err := l.burstAlone("per_kind." + kind + ".burst"); err != nil {
			return err
		}
		if err := o.check(jobs.Pool{PerKind: map[string]jobs.KindLimits{kind: jobs.KindLimits(o.PerKind[kind].Limits())}}); err != nil {
			return err
		}
	}
	for _, field := range o.Reset {
		if !isLimit(field) {
			return &jobs.FieldError{Path: "reset", Problem: fmt.Sprintf("has no field %.80q; name max_running, rate, burst, per_key, per_kind, per_kind.KIND, fair or fair.weights.KEY, or one of those of per_key or per_kind.KIND, as per_key.rate", field)}
		}
	}
	return nil
}

func (PoolLimits) check(p jobs.Pool) error {
	err := jobs.Set{Pools: map[string]jobs.Pool{"p": p}}.Validate()
	if wrong, ok := errors.AsType[*jobs.FieldError](err); ok {
		return &jobs.FieldError{Path: strings.TrimPrefix(wrong.Path, "pools.p."), Problem: wrong.Problem}
	}
	return err
}

// burstAlone refuses a burst that is set beside rate 0, so that it has no effect. Without a rate, it is for the rate of the definition.
func (l *LimitFields) burstAlone(path string) error {
	if l == nil || l.Burst == nil || *l.Burst == 0 || l.Rate == nil || *l.Rate != (jobs.Rate{}) {
		return nil
	}
	return &jobs.FieldError{Path: path, Problem: "has no effect with rate 0; set a rate, as in 50/s, or leave the burst out"}
}

// reset leaves the field with a name to the definition; "" is all of them.
func (l *LimitFields) reset(name string) {
	switch name {
	case "":
		*l = LimitFields{}
	case "max_running":
		l.MaxRunning = nil
	case "rate":
		l.Rate = nil
	case "burst":
		l.Burst = nil
	}
}

var limitNames = []string{"max_running", "rate", "burst"}

func isLimit(field string) bool {
	of, is := strings.CutPrefix(field, "per_key.")
	kind, byKind := strings.CutPrefix(field, "per_kind.")
	weight, byKey := strings.CutPrefix(field, "fair.weights.")
	return slices.Contains([]string{"max_running", "rate", "burst", "per_key", "per_kind", "fair", "fair.weights"}, field) ||
		is && slices.Contains(limitNames, of) || byKind && kind != "" || byKey && weight != ""
}

// With is what is set after a request: o, without what it removes, and with what it sets. It has no Reset, and shares nothing with o.
func (o PoolLimits) With(request PoolLimits) PoolLimits {
	whole, perKey, perKind, weights := o.whole(), LimitFields{}, maps.Clone(o.PerKind), maps.Clone(o.weights())
	if o.PerKey != nil {
		perKey = *o.PerKey
	}
	for _, field := range request.Reset {
		of, sub, _ := strings.Cut(field, ".")
		switch {
		case of == "per_key":
			perKey.reset(sub)
		case of == "per_kind":
			perKind = withoutKind(perKind, sub)
		case of == "fair" && strings.HasPrefix(sub, "weights."):
			delete(weights, strings.TrimPrefix(sub, "weights."))
		case of == "fair":
			weights = nil
		default:
			whole.reset(field)
		}
	}
	whole = whole.with(request.whole())
	if request.PerKey != nil {
		perKey = perKey.with(*request.PerKey)
	}
	for kind, l := range request.PerKind {
		if perKind == nil {
			perKind = map[string]LimitFields{}
		}
		perKind[kind] = perKind[kind].with(l)
	}
	for key, weight := range request.weights() {
		if weights == nil {
			weights = map[string]int{}
		}
		weights[key] = weight
	}
	out := PoolLimits{MaxRunning: whole.MaxRunning, Rate: whole.Rate, Burst: whole.Burst}
	if !perKey.none() {
		out.PerKey = &perKey
	}
	if len(perKind) > 0 {
		out.PerKind = perKind
	}
	if len(weights) > 0 {
		out.Fair = &Fair{Weights: weights}
	}
	return out
}

// withoutKind removes what is set of all kinds, of one, or one limit of it. Kinds may have a dot in their name: one that is called so comes first.
func withoutKind(all map[string]LimitFields, field string) map[string]LimitFields {
	if field == "" {
		return nil
	}
	if _, is := all[field]; is {
		delete(all, field)
		return all
	}
	if at := strings.LastIndex(field, "."); at > 0 && slices.Contains(limitNames, field[at+1:]) {
		l, is := all[field[:at]]
		if l.reset(field[at+1:]); is {
			all[field[:at]] = l
		}
		if l.none() {
			delete(all, field[:at])
		}
	}
	return all
}
