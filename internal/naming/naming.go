// Package naming holds what names look like, and those that are taken.
package naming

import "regexp"

// Pattern is what names of jobs, pools, kinds and replicas look like. Names are unique without regard to case.
var Pattern = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]{0,63}$`)

// Pools that exist without being defined; a set may define them to change their limits.
const (
	DefaultPool       = "default"       // of jobs that name no pool
	NotificationsPool = "notifications" // of notifications about other tasks; it takes no other tasks
)
