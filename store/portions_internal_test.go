package store

import (
	"slices"
	"testing"
)

func TestPortionsFitIntoStatements(t *testing.T) {
	for name, c := range map[string]struct {
		sizes, want []int
	}{
		"none":           {nil, nil},
		"few":            {[]int{1, 2, 3}, []int{3}},
		"many":           {make([]int, 2*rowsPerStatement+1), []int{rowsPerStatement, rowsPerStatement, 1}},
		"one too long":   {[]int{1, maxBytes + 1, 1}, []int{1, 1, 1}},
		"together":       {[]int{maxBytes - 1, 1, 1}, []int{2, 1}},
		"all of a batch": {slices.Repeat([]int{maxBytes / 256}, 300), []int{256, 44}},
	} {
		t.Run(name, func(t *testing.T) {
			var got, all []int
			for part := range portions(c.sizes, func(n int) int { return n }) {
				got, all = append(got, len(part)), append(all, part...)
			}
			if !slices.Equal(got, c.want) || !slices.Equal(all, c.sizes) {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}
