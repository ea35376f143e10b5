//go:build linux

package nemesis

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/lockstep-scheduler/lockstep/test/chaos/arena"
)

// All are all nemeses.
func All() []Nemesis {
	return slices.Concat(kills(), freezes(), twins(), changes(), reloads(), pauses(), famines(), cuts(), losses(), late(), forgets(), quorums(), ensembles(), databases(), workers(), clocks(), disks())
}

// Fitting are those that fit a cell, without the long ones.
func Fitting(c arena.Cell) []Nemesis {
	return slices.DeleteFunc(All(), func(n Nemesis) bool { return n.Long || !n.FitsIn(c) })
}

// Named is the nemesis of a name; the error lists those there are.
func Named(name string) (Nemesis, error) {
	var names []string
	for _, n := range All() {
		if n.Name == name {
			return n, nil
		}
		names = append(names, n.Name)
	}
	return Nemesis{}, fmt.Errorf("no nemesis %q; there are %s", name, strings.Join(names, ", "))
}

// AllPairs are the pairs that can strike a cell at the same time and make sense together: they break
// different things.
func AllPairs(c arena.Cell) (pairs [][2]Nemesis) {
	fitting := Fitting(c)
	for i, a := range fitting {
		for _, b := range fitting[i+1:] {
			if a.subject != b.subject && !inTheWay(a, b) && !inTheWay(b, a) {
				pairs = append(pairs, [2]Nemesis{a, b})
			}
		}
	}
	return pairs
}

// inTheWay says that the effect of a cannot be seen while b lasts.
func inTheWay(a, b Nemesis) bool {
	switch {
	case b.leaves:
		return a.subject != store && a.subject != lock
	case a.waits: // for a replica that uses both as it always does
		return b.idles || b.subject == store || b.subject == storeEdge || b.subject == lock || b.subject == lockEdge
	case a.subject == storeEdge: // an unused connection loses nothing
		return b.subject == store
	case a.subject == lockEdge:
		return b.subject == lock
	}
	return false
}

// Pairs are n of AllPairs, or all if there are fewer: the same ones for the same seed.
func Pairs(c arena.Cell, seed uint64, n int) [][2]Nemesis {
	pairs := AllPairs(c)
	r := rand.New(rand.NewPCG(seed, 1))
	r.Shuffle(len(pairs), func(i, j int) { pairs[i], pairs[j] = pairs[j], pairs[i] })
	return pairs[:min(n, len(pairs))]
}
