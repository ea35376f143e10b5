package jobs

import (
	"cmp"
	"slices"

	"github.com/lockstep-scheduler/lockstep/internal/unwrap"
)

// owned is a handler of a set, with where it stands.
type owned struct {
	path    string
	handler Handler
	isNamed bool
	name    string // by Named
}

// apart checks that handlers with one identity are one handler. Otherwise replicas that have the one
// where others have the other would agree on the definition's hash, and work on. Function literals pass: they
// claim no identity, and are told apart by the job or kind that they stand in.
func (p *problems) apart(s Set) {
	groups := map[string][]owned{} // by identity: the first, and those that are not seen to be the same
	var order []string
	for _, h := range s.opaqueHandlers() {
		if h.isNamed && h.name == "" {
			p.add(h.path, "has a handler with an empty name; say what it does, as in jobs.Named(\"send mail\", handler)")
			continue
		}
		identity := identify(h.handler)
		if isOfLiteral(identity) {
			continue
		}
		group := groups[identity]
		if len(group) == 0 {
			order = append(order, identity)
		}
		if len(group) == 0 || relate(group[0].handler, h.handler) != same {
			groups[identity] = append(group, h)
		}
	}
	for _, identity := range order {
		if group := groups[identity]; len(group) > 1 {
			p.alike(identity, group)
		}
	}
}

func (p *problems) alike(identity string, group []owned) {
	paths := make([]string, 0, len(group))
	for _, h := range append(group[:1:1], group[2:]...) {
		paths = append(paths, h.path)
	}
	others := some(paths)
	if first := group[0]; first.isNamed {
		p.add(group[1].path, "has another handler than %s, and all are named %.80q; give each a name of its own", others, first.name)
		return
	}
	p.add(group[1].path, "has a handler that cannot be told from that of %s: all are %.200s, and may do different things; "+
		"use one handler for all, or say what each does, as in jobs.Named(\"send mail\", handler), and surround handlers with jobs.Wrap alone", others, identity)
}

// opaque reports whether a handler does not say everything of itself, or was named, and how.
func opaque(h Handler) (is, isNamed bool, name string) {
	if missing(h) {
		return false, false, ""
	}
	explicit, identified := unwrap.As[Identified](h)
	given, isNamed := explicit.(named)
	return !identified || isNamed, isNamed, given.name
}

// opaqueHandlers are those that do not say everything of themselves, or were named, by path. Of the many
// jobs of a file none is among them.
func (s Set) opaqueHandlers() []owned {
	var all []owned
	add := func(h Handler, section, name, part string) {
		if is, isNamed, given := opaque(h); is {
			all = append(all, owned{section + name + part, h, isNamed, given})
		}
	}
	for name, pool := range s.Pools {
		add(pool.Handler, "pools.", name, "")
		for kind, h := range pool.Kinds {
			add(h, "pools.", name, ".kinds."+kind)
		}
		add(pool.Notify.Handler, "pools.", name, ".notify")
	}
	for name, job := range s.Jobs {
		add(job.Handler, "jobs.", name, "")
		add(job.Notify.Handler, "jobs.", name, ".notify")
	}
	slices.SortFunc(all, func(a, b owned) int { return cmp.Compare(a.path, b.path) })
	return all
}
