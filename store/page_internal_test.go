package store

import (
	"errors"
	"fmt"
	"testing"
)

// A walk finds what fits, goes on behind what it has found or looked at, and looks at so many at most.
func TestWalk(t *testing.T) {
	const all = 3*looked + 7
	ids := make([]string, all)
	for i := range ids {
		ids[i] = fmt.Sprintf("%06d", all-i)
	}
	at := func(id string) int { // the place behind an id
		for i := range ids {
			if ids[i] == id {
				return i + 1
			}
		}
		return 0
	}
	for i, c := range []struct {
		n, each int // of each so many one fits
		from    int
		found   int
		last    int // the place behind the last one, 0: it is the end
	}{
		{3, 1, 0, 3, 3},
		{3, 10, 0, 3, 30},
		{1, looked, 0, 1, looked},
		{1, looked + 1, 0, 0, looked},
		{500, 5, 0, 400, looked},
		{500, 500, all - 8, 0, 0},
		{500, 1, all - 7, 7, 0},
		{7, 1, all - 7, 7, all},
		{500, 1, all, 0, 0},
	} {
		var after []string
		if c.from > 0 {
			after = ids[c.from-1 : c.from]
		}
		reads, fits := 0, 0
		found, last, err := walk(after, c.n, func(after []string, n int) ([]string, error) {
			reads += n
			from := 0
			if after != nil {
				from = at(after[0])
			}
			return ids[from:min(from+n+i%2, all)], nil // some read one more than they are asked for
		}, func(page []string) (func(string) bool, error) {
			fits += len(page)
			return func(id string) bool { return (at(id)-c.from)%c.each == 0 }, nil
		})
		end := 0
		if last != "" {
			end = at(last)
		}
		if err != nil || len(found) != c.found || end != c.last || reads > looked || fits > looked {
			t.Errorf("%+v: found %d up to %d, %v; read %d", c, len(found), end, err, reads)
		}
		for k, id := range found {
			if at(id) != c.from+(k+1)*c.each {
				t.Errorf("%+v: found %s", c, id)
			}
		}
	}
	broken := errors.New("broken")
	if _, _, err := walk(nil, 1, func([]string, int) ([]string, error) { return nil, broken }, nil); !errors.Is(err, broken) {
		t.Errorf("what cannot be read: %v", err)
	}
	if _, _, err := walk(nil, 1, func([]string, int) ([]string, error) { return ids[:1], nil }, func([]string) (func(string) bool, error) { return nil, broken }); !errors.Is(err, broken) {
		t.Errorf("what cannot be looked at: %v", err)
	}
}
