package plan

import "sync/atomic"

// Current is the plan that a replica goes by now. Another one may take its place at any moment: who decides something loads it
// once, and uses that one throughout.
type Current struct {
	plan      atomic.Pointer[Plan]
	namespace atomic.Pointer[string]
}

// NewCurrent makes p the current plan.
func NewCurrent(p *Plan) *Current {
	c := &Current{}
	c.Store(p)
	return c
}

// Load is the plan now; a nil Current has none.
func (c *Current) Load() *Plan {
	if c == nil {
		return nil
	}
	return c.plan.Load()
}

// Store makes p the plan from now on. It is not called beside In.
func (c *Current) Store(p *Plan) {
	p.namespace.Store(c.namespace.Load())
	c.plan.Store(p)
}

// Namespace is what In has set; false: nothing yet.
func (c *Current) Namespace() (namespace string, known bool) {
	if n := c.namespace.Load(); n != nil {
		return *n, true
	}
	return "", false
}

// In sets the namespace of the plan, and of those that take its place, see [Plan.Namespace].
func (c *Current) In(namespace string) {
	c.namespace.Store(&namespace)
	c.Load().namespace.Store(&namespace)
}
