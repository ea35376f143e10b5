package jobs

import (
	"maps"
	"slices"
	"strings"
)

// ValidateChanged is [Set.Validate] of a set that is as before, which is valid, but for jobs: it does not have some, and has those with these names otherwise, or
// has them where before does not. It does not look at what has not changed, so before need have no other jobs than these.
func (s Set) ValidateChanged(before Set, names []string) error {
	var p problems
	names = slices.Sorted(slices.Values(names))
	var added []string
	unlike := false // a handler is new, and what it does is not known from what it says
	for _, name := range names {
		job, was := s.Jobs[name], before.Jobs[name]
		if _, had := before.Jobs[name]; !had {
			added = append(added, name)
		}
		for _, of := range [][2]Handler{{job.Handler, was.Handler}, {job.Notify.Handler, was.Notify.Handler}} {
			is, _, _ := opaque(of[0])
			unlike = unlike || is && !sameHandler(of[0], of[1])
		}
	}
	if s.alikeInSmall(added) {
		added = slices.Sorted(maps.Keys(s.Jobs))
	}
	p.names("jobs", added)
	for _, name := range names {
		p.jobOf(s, name)
	}
	if unlike {
		p.apart(s)
	}
	return p.err()
}

// alikeInSmall reports whether one of these jobs differs from another of the set only in capitals.
func (s Set) alikeInSmall(names []string) bool {
	if len(names) == 0 || len(names) == len(s.Jobs) { // among themselves they are looked at anyway
		return false
	}
	small := map[string]string{}
	for _, name := range names {
		small[strings.ToLower(name)] = name
	}
	for name := range s.Jobs {
		if as, is := small[strings.ToLower(name)]; is && as != name {
			return true
		}
	}
	return false
}
