package paging

import (
	"errors"
	"slices"
	"testing"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

func TestCursor(t *testing.T) {
	for _, key := range [][]string{{"a"}, {""}, {"a", "", "b\nc"}, {"ä"}} {
		got, err := ReadCursor(Cursor("list", key...), "list", len(key))
		if err != nil || !slices.Equal(got, key) {
			t.Errorf("%q: %q, %v", key, got, err)
		}
	}
	if key, err := ReadCursor("", "list", 2); key != nil || err != nil {
		t.Errorf("the first page: %q, %v", key, err)
	}
	made := Cursor("list", "a", "b")
	for what, cursor := range map[string]string{
		"another list": Cursor("other", "a", "b"), "too few parts": Cursor("list", "a"), "no base64": "?", "padding": made + "=", "one character less": made[:len(made)-1],
		"other bits at the end": made[:len(made)-1] + "h",
	} {
		if key, err := ReadCursor(cursor, "list", 2); !errors.Is(err, jobs.ErrInvalid) {
			t.Errorf("%s: %q, %v", what, key, err)
		}
	}
}

func TestLimit(t *testing.T) {
	for limit, want := range map[int]int{0: DefaultLimit, 1: 1, MaxLimit: MaxLimit, -1: 0, MaxLimit + 1: 0} {
		got, err := Limit(limit)
		if got != want || errors.Is(err, jobs.ErrInvalid) != (want == 0) {
			t.Errorf("%d: %d, %v", limit, got, err)
		}
	}
}
