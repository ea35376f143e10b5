//go:build !linux

package servers

import "testing"

// Grant leaves the test out: ACLs are looked at on Linux alone.
func Grant(t testing.TB, path string, _ uint32) { LeaveOut(t, "needs Linux, for an ACL of "+path) }
