package jobs

import (
	"context"
	"fmt"
	"io"

	"github.com/lockstep-scheduler/lockstep/internal/unwrap"
)

// Named gives h an identity: name says what it does. It is for code that cannot say so itself: function literals,
// of which replicas see neither what they do nor what they capture, and methods of several values.
//
//	func tell(team string) jobs.Handler {
//		return jobs.Named("tell "+team, jobs.Func(func(…) error { … }))
//	}
//
// In all replicas equal names mean the same work: when a new version does something else, so that jobs
// of the old one must not be mixed up with it, give it another name. What h knows of its own identity
// counts as well, as that of a command does. The name is shown, and must not be secret.
func Named(name string, h Handler) Handler {
	if unwrap.Innermost(h) == nil {
		return nil
	}
	return named{name, h}
}

type named struct {
	name  string
	inner Handler
}

func (n named) Run(ctx context.Context, t Task, out io.Writer) error { return n.inner.Run(ctx, t, out) }

func (n named) Unwrap() Handler { return n.inner }

func (n named) Describe() string {
	if inner, ok := unwrap.As[Described](n.inner); ok {
		return n.name + ": " + inner.Describe()
	}
	return n.name
}

func (n named) Identity() string {
	identity := fmt.Sprintf("named %q", n.name)
	if inner, ok := unwrap.As[Identified](n.inner); ok {
		identity += ": " + inner.Identity()
	}
	return identity
}
