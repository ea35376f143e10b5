package api

import "slices"

// Role is a caller's role. Each includes those before it.
type Role string

// The roles, weakest first.
const (
	Viewer   Role = "viewer"   // reads
	Operator Role = "operator" // also enqueues, runs, cancels, retries, suspends, resumes and pauses
	Admin    Role = "admin"    // everything: also drains, releases locks, and reads the audit
)

// anyone is the role of routes without data.
const anyone Role = "anyone"

var roles = []Role{Viewer, Operator, Admin}

// Roles returns the roles, weakest first.
func Roles() []Role { return slices.Clone(roles) }

// covers reports whether r includes the role needed. An unknown role includes nothing, and is included by nothing.
func (r Role) covers(needed Role) bool {
	need := slices.Index(roles, needed)
	return need >= 0 && slices.Index(roles, r) >= need
}
