package plan

import (
	"maps"
	"slices"

	"github.com/lockstep-scheduler/lockstep/api/wire"
)

// Compare says which jobs and pools p has otherwise than before, by name.
func (p *Plan) Compare(before *Plan) (jobs, pools wire.Changed) {
	return compare(before.Jobs, p.Jobs, hashOf), compare(before.Pools, p.Pools, func(p *Pool) string { return p.Hash })
}

func hashOf(j *Job) string { return j.Hash }

func compare[D any](before, after map[string]D, hash func(D) string) wire.Changed {
	names := slices.AppendSeq(slices.Collect(maps.Keys(before)), maps.Keys(after))
	slices.Sort(names)
	return compareOnly(before, after, slices.Compact(names), hash)
}

// compareOnly is compare of those with these names, which are sorted.
func compareOnly[D any](before, after map[string]D, names []string, hash func(D) string) (c wire.Changed) {
	for _, name := range names {
		old, had := before[name]
		now, has := after[name]
		switch {
		case !had && has:
			c.Added = append(c.Added, name)
		case had && !has:
			c.Removed = append(c.Removed, name)
		case had && has && hash(old) != hash(now):
			c.Changed = append(c.Changed, name)
		}
	}
	return c
}
