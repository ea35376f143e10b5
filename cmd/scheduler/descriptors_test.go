package main

import (
	"strings"
	"testing"
)

func TestDescriptors(t *testing.T) {
	for _, c := range []struct {
		limit, workers, connections int
		short                       bool
	}{
		{0, 64, 1024, false},
		{1 << 20, 64, 1024, false},
		{1024, 64, 672, false},
		{384, 64, 32, false},
		{383, 64, 32, true},
		{256, 64, 32, true},
		{256, 16, 96, false},
		{64, 64, 8, true},
		{4, 64, 1, true},
	} {
		d := descriptors{c.limit, c.workers}
		if got := d.connections(); got != c.connections {
			t.Errorf("%+v: %d connections, want %d", d, got, c.connections)
		}
		if got := d.short(); (got != "") != c.short || c.short && !strings.Contains(got, "64 workers may need 384: raise the limit") {
			t.Errorf("%+v: %q", d, got)
		}
		if len(d.conditions()) > 0 != c.short {
			t.Errorf("%+v: %+v", d, d.conditions())
		}
		var e examination
		if e.descriptors(d); len(e.findings) > 0 != c.short || e.problems() > 0 {
			t.Errorf("%+v: %+v", d, e.findings)
		}
	}
}
