// Package naming has the patterns of names and fingerprints, the reserved ones, and what labels may be.
package naming

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Pattern matches the names of jobs, pools, kinds and replicas. Names are unique without regard to case.
var Pattern = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]{0,63}$`)

// Hint says what Pattern matches, after what is wrong: "... is not a name; " and this.
const Hint = "up to 64 of a-z A-Z 0-9 . _ -, the first a letter or digit"

// Fingerprint matches a jobs.Fingerprint, by which dead letters are grouped.
var Fingerprint = regexp.MustCompile(`^[0-9a-f]{16}$`)

// Pools that exist without being defined; a set may define them to change their limits.
const (
	DefaultPool       = "default"       // of jobs that name no pool
	NotificationsPool = "notifications" // of notifications about other tasks; it takes no other tasks
)

// Valid reports whether Pattern matches the name, at a tenth of the cost: a file may have 100,000.
func Valid(name string) bool {
	if len(name) == 0 || len(name) > 64 {
		return false
	}
	for i := range len(name) {
		switch c := name[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case i > 0 && (c == '.' || c == '_' || c == '-'):
		default:
			return false
		}
	}
	return true
}

// Problem is what is wrong with a name, or empty.
func Problem(name string) string {
	switch {
	case name == "":
		return "is missing"
	case !Valid(name):
		return fmt.Sprintf("%.80q is not a name; use letters, digits and . _ -, a letter or digit first, at most 64", name)
	}
	return ""
}

// Printable reports whether s is text without control characters, in one line.
func Printable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}
