// Package await lets tests wait for what will be true, instead of for a time in which it should be.
package await

import (
	"testing"
	"time"
)

// limit is what no healthy run comes near, on a machine however busy.
const limit = time.Minute

// Until returns when holds is true, asking every few milliseconds; what is said of it when it never is.
func Until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}
