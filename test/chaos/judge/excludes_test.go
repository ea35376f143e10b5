package judge

import (
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// held is a holding that was looked at every 50 ms, in ms since the run began.
func held(key, holder string, token int64, from, to int) (all []history.Hold) {
	for at := from; at <= to; at += 50 {
		all = append(all, history.Hold{At: began.Add(time.Duration(at) * time.Millisecond), Holder: holder, Key: key, Token: token})
	}
	return all
}

// of makes holdings of those that may hold it together.
func of(kind history.Together, all []history.Hold) []history.Hold {
	for i := range all {
		all[i].Kind = &kind
	}
	return all
}

func TestExcludes(t *testing.T) {
	cut := history.Window{Nemesis: "cut", Kinds: []history.Kind{history.LockDown}, Replicas: []string{"a"}, Began: began, Healed: began.Add(5 * time.Second), Applied: true}
	step := history.Window{Nemesis: "step", Kinds: []history.Kind{history.LockClock}, Began: began, Healed: began.Add(5 * time.Second), Applied: true}
	storeStep := step
	storeStep.Kinds = []history.Kind{history.StoreClock}
	for _, c := range []struct {
		name   string
		cell   string
		window history.Window
		holds  [][]history.Hold
		want   int // violations
	}{
		{"one after the other", "mariadb+redis", cut, [][]history.Hold{held("k", "a", 5, 0, 1000), held("k", "b", 9, 1050, 2000), held("k", "a", 10, 2000, 2500)}, 0},
		{"different keys", "mariadb+redis", cut, [][]history.Hold{held("k", "a", 5, 0, 1000), held("l", "b", 9, 500, 900)}, 0},
		{"two at once", "mariadb+redis", cut, [][]history.Hold{held("k", "a", 5, 0, 1000), held("k", "b", 9, 950, 2000)}, 1},
		{"one within another", "mariadb+redis", cut, [][]history.Hold{held("k", "a", 5, 0, 9000), held("k", "b", 9, 950, 2000), held("k", "c", 11, 3000, 4000)}, 2},
		{"readers together", "mariadb+redis", cut, [][]history.Hold{of(0, held("k", "a", 5, 0, 1000)), of(0, held("k", "b", 6, 500, 2000))}, 0},
		{"a reader beside a writer", "mariadb+redis", cut, [][]history.Hold{held("k", "a", 5, 0, 1000), of(0, held("k", "b", 6, 500, 2000))}, 1},
		{"a writer beside two readers", "mariadb+redis", cut, [][]history.Hold{of(0, held("k", "a", 5, 0, 1000)), of(0, held("k", "b", 6, 500, 2000)), held("k", "c", 7, 600, 900)}, 1},
		{"a writer with the token of a reader", "mariadb+redis", cut, [][]history.Hold{of(0, held("k", "a", 5, 0, 1000)), held("k", "c", 5, 1600, 1900)}, 1},
		{"two of two", "mariadb+redis", cut, [][]history.Hold{of(2, held("k", "a", 5, 0, 1000)), of(2, held("k", "b", 6, 500, 2000)), of(2, held("k", "c", 7, 1000, 2000))}, 0},
		{"three of two", "mariadb+redis", cut, [][]history.Hold{of(2, held("k", "a", 5, 0, 1000)), of(2, held("k", "b", 6, 500, 2000)), of(2, held("k", "c", 7, 900, 2000))}, 1},
		{"three of three beside two of two", "mariadb+redis", cut, [][]history.Hold{of(2, held("k", "a", 5, 0, 1000)), of(3, held("k", "b", 6, 500, 2000))}, 1},
		{"a token again", "mariadb+redis", cut, [][]history.Hold{held("k", "a", 5, 0, 1000), held("k", "b", 5, 2000, 3000)}, 1},
		{"a token back", "mariadb+redis", cut, [][]history.Hold{held("k", "a", 5, 0, 1000), held("k", "a", 4, 2000, 3000), held("k", "b", 5, 4000, 5000)}, 2},
		{"all tokens again", "mariadb+redis", cut, [][]history.Hold{held("k", "a", 5, 0, 1000), held("k", "b", 6, 2000, 3000), held("k", "a", 4, 4000, 5000), held("k", "a", 5, 6000, 7000)}, 2},
		{"the server hung up", "mariadb+row", cut, [][]history.Hold{held("k", "a", 5, 0, 1000), held("k", "b", 9, 100, 2000)}, 0},
		{"the server hung up long ago", "mariadb+row", cut, [][]history.Hold{held("k", "a", 5, 0, 4000), held("k", "b", 9, 100, 5000)}, 1},
		{"the server hung up on one that hears late of its grant", "mariadb+row", cut, [][]history.Hold{held("k", "a", 5, 120, 300), held("k", "b", 9, 100, 2000)}, 0},
		{"the server hung up on another than the one that hears late of its grant", "mariadb+row", cut, [][]history.Hold{held("k", "b", 5, 120, 300), held("k", "a", 9, 100, 2000)}, 1},
		{"the server hung up on one that hears later still", "mariadb+row", cut, [][]history.Hold{held("k", "b", 9, 0, 100), held("k", "a", 5, 200, 300)}, 0},
		{"the server hung up on one that hears too late", "mariadb+row", cut, [][]history.Hold{held("k", "b", 9, 0, 100), held("k", "a", 5, 4200, 4300)}, 1},
		{"the server hung up on another", "mariadb+row", cut, [][]history.Hold{held("k", "b", 5, 0, 1000), held("k", "a", 9, 100, 2000)}, 1},
		{"the server's clock was set ahead", "mariadb+lease", step, [][]history.Hold{held("k", "a", 5, 0, 1000), held("k", "b", 9, 100, 2000)}, 0},
		{"the store's clock was set ahead", "mariadb+mariadb", storeStep, [][]history.Hold{held("k", "a", 5, 0, 1000), held("k", "b", 9, 100, 2000)}, 0},
		{"the clock of a store without locks was set ahead", "mariadb+lease", storeStep, [][]history.Hold{held("k", "a", 5, 0, 1000), held("k", "b", 9, 100, 2000)}, 1},
		{"a clock was set ahead", "mariadb+zookeeper", step, [][]history.Hold{held("k", "a", 5, 0, 1000), held("k", "b", 9, 100, 2000)}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := clean(1)
			h.Run.Cell, h.Windows = c.cell, append(h.Windows, c.window)
			for _, one := range c.holds {
				h.Holds = append(h.Holds, one...)
			}
			n := 0
			for _, v := range Judge(h).Violations {
				if v.Invariant == Excludes {
					n++
				}
			}
			if n != c.want {
				t.Errorf("%d violations, want %d", n, c.want)
			}
		})
	}
}
