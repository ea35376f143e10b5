package ledger

import (
	"slices"
	"testing"
)

// A kind is shared with the configuration that governs if both have it, with the same handler.
func TestSharedKinds(t *testing.T) {
	own := map[string]string{"": "h1", "fax": "h2", "mail": "h3", "print": "h4"}
	for name, c := range map[string]struct {
		own, governing map[string]string
		want           []string
	}{
		"the same":      {own, own, []string{"", "fax", "mail", "print"}},
		"some differ":   {own, map[string]string{"": "other", "fax": "h2", "mail": "h4", "print": "h4", "more": "h1"}, []string{"fax", "print"}},
		"none governs":  {own, nil, []string{}},
		"none is there": {nil, own, []string{}},
	} {
		if got := SharedKinds(c.own, c.governing); got == nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %q are shared, want %q", name, got, c.want)
		}
	}
}
