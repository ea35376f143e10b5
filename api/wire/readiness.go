package wire

// Readiness says whether a replica starts new work, and why not.
type Readiness struct {
	Ready      bool        `json:"ready"`
	Conditions []Condition `json:"conditions"`
}

// Condition is one thing that readiness depends on, or that is worth saying beside it.
type Condition struct {
	Name   string `json:"name"`             // "store", "lock", "clock", "configuration", "draining"
	Ready  bool   `json:"ready"`            // false: this replica starts nothing new
	Detail string `json:"detail,omitempty"` // for people; never empty when something is wrong
}
