package mutants

import (
	"maps"
	"slices"
	"testing"
)

// The time of parallel subtests is not in their test's own time.
func TestSeconds(t *testing.T) {
	out := "=== RUN   TestX\n=== RUN   TestX/a\n=== RUN   TestX/b\n--- PASS: TestX (0.50s)\n" +
		"    --- PASS: TestX/a (2.25s)\n        --- PASS: TestX/a/c (1.00s)\n    --- SKIP: TestX/b (1.50s)\nPASS\n"
	if got := seconds(out); got != 3.75 {
		t.Errorf("%v", got)
	}
	if got := leaves("TestX", out); !slices.Equal(got, []string{"TestX/a", "TestX/b"}) {
		t.Errorf("%q", got)
	}
}

// A test that is judged by its subtests is judged as a whole for what none of them reaches alone.
func TestJudges(t *testing.T) {
	got := judges([]string{"TestX", "TestY", "TestZ", "TestBroken"}, map[string]reached{
		"TestX":      {Parts: []string{"TestX/a", "TestX/b"}, Seen: []string{"1", "2", "3"}},
		"TestX/a":    {Seen: []string{"1"}},
		"TestX/b":    {Seen: []string{"2"}, Failed: true},
		"TestY":      {Parts: []string{"TestY/a"}, Seen: []string{"1", "2"}},
		"TestY/a":    {Seen: []string{"1", "2", "4"}},
		"TestZ":      {Seen: []string{"4"}},
		"TestBroken": {Seen: []string{"1"}, Failed: true},
	})
	if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, []string{"TestX", "TestX/a", "TestY/a", "TestZ"}) {
		t.Errorf("%q judge", names)
	}
	if seen := got["TestX"].Seen; !slices.Equal(seen, []string{"2", "3"}) {
		t.Errorf("as a whole it judges %q", seen)
	}
}
