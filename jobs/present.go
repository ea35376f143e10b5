package jobs

import (
	"github.com/lockstep-scheduler/lockstep/internal/nilcheck"
	"github.com/lockstep-scheduler/lockstep/internal/unwrap"
)

// present reports whether h can be run, and says what is wrong if not.
func (p *problems) present(path string, h Handler) bool {
	switch inner := unwrap.Innermost(h); {
	case unwrap.Endless(h):
		p.add(path, "has a handler that surrounds itself; the Unwrap of a %T must return the handler in it", inner)
	case inner == nil:
		p.add(path, "has no handler; give it one, or remove it")
	case nilcheck.IsNil(inner):
		p.add(path, "has a handler that is a nil %T; give it one that is not, or remove it", inner)
	default:
		return true
	}
	return false
}

// missing reports whether there is nothing to run: h is nil, or what it surrounds, or h surrounds itself.
func missing(h Handler) bool { return nilcheck.IsNil(unwrap.Innermost(h)) || unwrap.Endless(h) }
