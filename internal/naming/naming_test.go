package naming

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Valid says what Pattern says.
func TestValid(t *testing.T) {
	check := func(name string) bool { return Valid(name) == Pattern.MatchString(name) }
	for _, name := range []string{"", "a", ".a", "a.", "-", "a\n", "é", strings.Repeat("a", 64), strings.Repeat("a", 65)} {
		if !check(name) {
			t.Errorf("%q: %t", name, Valid(name))
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-zA-Z0-9._ -]{0,66}`)).Draw(t, "name")
		if !check(name) {
			t.Errorf("%q: %t", name, Valid(name))
		}
	})
}
