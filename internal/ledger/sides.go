package ledger

// Sides are what a store offers to the packages of this module beside what its users see: an interface for each of
// those that ask.
type Sides struct {
	Replica Store // of package scheduler
}

// Sides makes a store of its sides, to be given where a store is taken.
func (s Sides) Sides() Sides { return s }
