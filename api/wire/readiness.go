package wire

// Readiness is whether a replica starts new work, with its conditions.
type Readiness struct {
	Ready      bool        `json:"ready"`
	Conditions []Condition `json:"conditions"`
}

// Condition is a condition of readiness, or a remark beside it.
type Condition struct {
	Name   string `json:"name"`             // "store", "lock", "clock", "configuration", "draining"
	Ready  bool   `json:"ready"`            // false: this replica starts nothing new
	Detail string `json:"detail,omitempty"` // for people; never empty when something is wrong
}
