package ledger

import (
	"slices"
	"testing"
)

// Of a batch with refused elements all others are taken, in order, and each refused one is tried alone.
func TestHalve(t *testing.T) {
	for name, c := range map[string]struct {
		n       int
		refused []int
		stopAt  int // the try that says not to go on; 0: none does
		tries   int
		want    []int
	}{
		"none is refused":      {n: 4, tries: 1, want: []int{0, 1, 2, 3}},
		"one":                  {n: 5, refused: []int{2}, tries: 5, want: []int{0, 1, 3, 4}},
		"the last":             {n: 4, refused: []int{3}, tries: 5, want: []int{0, 1, 2}},
		"all":                  {n: 3, refused: []int{0, 1, 2}, tries: 5},
		"a single one":         {n: 1, refused: []int{0}, tries: 1},
		"it must not go on":    {n: 8, refused: []int{0, 7}, stopAt: 3, tries: 3},
		"not after one passed": {n: 4, refused: []int{3}, stopAt: 2, tries: 2, want: []int{0, 1}},
	} {
		var taken, alone []int
		tries := 0
		batch := make([]int, c.n)
		for i := range batch {
			batch[i] = i
		}
		all := Halve(batch, func(part []int) (refused, goOn bool) {
			tries++
			goOn = tries != c.stopAt
			if slices.ContainsFunc(part, func(i int) bool { return slices.Contains(c.refused, i) }) {
				if len(part) == 1 {
					alone = append(alone, part...)
				}
				return true, goOn
			}
			taken = append(taken, part...)
			return false, goOn
		})
		if all != (c.stopAt == 0) || tries != c.tries || !slices.Equal(taken, c.want) || c.stopAt == 0 && !slices.Equal(alone, c.refused) {
			t.Errorf("%s: %v after %d tries: taken %v, alone %v", name, all, tries, taken, alone)
		}
	}
}
