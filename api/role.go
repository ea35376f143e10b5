package api

import "slices"

// Role says what a caller may do. Each may do what those before it may.
type Role string

// The roles, weakest first.
const (
	Viewer   Role = "viewer"   // reads
	Operator Role = "operator" // also enqueues, runs, cancels, retries, suspends, resumes and pauses
	Admin    Role = "admin"    // everything: also drains, releases locks, and reads the audit
)

// anyone is the role of routes that hold no data.
const anyone Role = "anyone"

var roles = []Role{Viewer, Operator, Admin}

// Roles returns the roles, weakest first.
func Roles() []Role { return slices.Clone(roles) }

// covers reports whether r may do what needs role needed. An unknown role covers nothing, and nothing covers it.
func (r Role) covers(needed Role) bool {
	need := slices.Index(roles, needed)
	return need >= 0 && slices.Index(roles, r) >= need
}
