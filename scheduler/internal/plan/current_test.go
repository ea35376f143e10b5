package plan

import (
	"testing"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// The namespace is that of the plan now and of those that take its place, whenever it is learned.
func TestCurrent(t *testing.T) {
	var none *Current
	if none.Load() != nil {
		t.Error("nothing has a plan")
	}
	first, next, last := must(t, jobs.Set{}), must(t, jobs.Set{}), must(t, jobs.Set{})
	c := NewCurrent(first)
	if c.Load() != first || first.Namespace() != "" {
		t.Errorf("in namespace %q", first.Namespace())
	}
	c.Store(next)
	c.In("prod")
	if c.Load() != next || next.Namespace() != "prod" || first.Namespace() != "" {
		t.Errorf("in namespace %q, before in %q", next.Namespace(), first.Namespace())
	}
	if c.Store(last); last.Namespace() != "prod" {
		t.Errorf("later in namespace %q", last.Namespace())
	}
}
