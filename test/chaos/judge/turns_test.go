package judge

import (
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// wait is a wait for a key, in ms since the run began; queued < 0: it was not.
func wait(waiter, key string, asked, queued, ended int, token int64) history.Wait {
	at := func(ms int) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }
	w := history.Wait{Waiter: waiter, Beside: "a", Key: key, Kind: 1, Asked: at(asked), Ended: at(ended), Token: token}
	if queued >= 0 {
		w.Queued = at(queued)
	}
	return w
}

func TestInTurn(t *testing.T) {
	reads := func(w history.Wait) history.Wait { w.Kind = 0; return w }
	moved := func(w history.Wait) history.Wait { w.Moved = true; return w }
	fault := func(kind history.Kind) *history.Window {
		return &history.Window{Nemesis: "cut", Kinds: []history.Kind{kind}, Began: began, Healed: began.Add(3 * time.Second), Applied: true}
	}
	for _, c := range []struct {
		name   string
		cell   string
		waits  []history.Wait
		holds  []history.Hold
		window *history.Window
		want   int
	}{
		{"in order", "mariadb+redis", []history.Wait{wait("a", "k", 0, 10, 500, 1), wait("b", "k", 20, 30, 600, 2)}, held("k", "x", 1, 0, 600), nil, 0},
		{"asked before the other was acknowledged", "mariadb+redis", []history.Wait{wait("a", "k", 0, 30, 600, 2), wait("b", "k", 20, 25, 500, 1)}, held("k", "x", 1, 0, 600), nil, 0},
		{"overtaken", "mariadb+redis", []history.Wait{wait("a", "k", 0, 10, 600, 2), wait("b", "k", 20, 30, 500, 1)}, held("k", "x", 1, 0, 600), nil, 1},
		{"overtaken by one that did not wait", "mariadb+redis", []history.Wait{wait("a", "k", 0, 10, 600, 2), wait("b", "k", 20, -1, 500, 1)}, held("k", "x", 1, 0, 600), nil, 1},
		{"overtaken twice", "mariadb+redis", []history.Wait{wait("a", "k", 0, 10, 900, 9), wait("b", "k", 20, 30, 500, 1), wait("c", "k", 600, 610, 800, 5)}, held("k", "x", 1, 0, 900), nil, 2},
		{"readers together", "mariadb+redis", []history.Wait{reads(wait("a", "k", 0, 10, 600, 2)), reads(wait("b", "k", 20, 30, 500, 1))}, held("k", "x", 1, 0, 600), nil, 0},
		{"a writer overtaken by a reader", "mariadb+redis", []history.Wait{wait("b", "k", 20, 30, 600, 2), reads(wait("c", "k", 40, 50, 500, 1))}, held("k", "x", 1, 0, 700), nil, 1},
		{"a reader overtaken by a writer", "mariadb+redis", []history.Wait{reads(wait("a", "k", 0, 10, 600, 2)), wait("b", "k", 20, 30, 500, 1)}, held("k", "x", 1, 0, 600), nil, 1},
		{"of another key", "mariadb+redis", []history.Wait{wait("a", "k", 0, 10, 600, 2), wait("b", "l", 20, 30, 500, 1)}, held("k", "x", 1, 0, 600), nil, 0},
		{"of one that moved", "mariadb+redis", []history.Wait{moved(wait("a", "k", 0, 10, 600, 2)), wait("b", "k", 20, 30, 500, 1)}, held("k", "x", 1, 0, 600), nil, 0},
		{"of one that gave up", "mariadb+redis", []history.Wait{wait("a", "k", 0, 10, 600, 0), wait("b", "k", 20, 30, 500, 1)}, held("k", "x", 1, 0, 600), nil, 0},
		{"no order is promised", "mariadb+row", []history.Wait{wait("a", "k", 0, 10, 600, 2), wait("b", "k", 20, 30, 500, 1)}, held("k", "x", 1, 0, 600), nil, 0},
		{"a dead holder", "mariadb+redis", []history.Wait{wait("a", "k", 0, 10, 5500, 2)}, held("k", "x", 1, 0, 600), nil, 0},
		{"a key that nobody gets", "mariadb+row", []history.Wait{wait("a", "k", 0, 10, 5700, 2)}, held("k", "x", 1, 0, 600), nil, 1},
		{"a key that nobody gets until it gives up", "mariadb+redis", []history.Wait{wait("a", "k", 0, 10, 5700, 0)}, held("k", "x", 1, 0, 600), nil, 1},
		{"a key that another gets late", "mariadb+redis", []history.Wait{wait("a", "k", 0, 10, 9000, 3)}, append(held("k", "x", 1, 0, 600), held("k", "y", 2, 5700, 9000)...), nil, 1},
		{"a key that is held all the time", "mariadb+redis", []history.Wait{wait("a", "k", 0, 10, 9000, 3)}, append(held("k", "x", 1, 0, 5000), held("k", "y", 2, 5100, 9000)...), nil, 0},
		{"the service is down", "mariadb+redis", []history.Wait{wait("a", "k", 0, 10, 9000, 2)}, held("k", "x", 1, 0, 600), fault(history.LockDown), 0},
		{"the store is down, and has the locks", "mariadb+mariadb", []history.Wait{wait("a", "k", 0, 10, 9000, 2)}, held("k", "x", 1, 0, 600), fault(history.StoreDown), 0},
		{"the store is down, and has no locks", "mariadb+redis", []history.Wait{wait("a", "k", 0, 10, 9000, 2)}, held("k", "x", 1, 0, 600), fault(history.StoreDown), 1},
		{"a replica is frozen, which may have the file's write lock", "sqlite+sqlite", []history.Wait{wait("a", "k", 0, 10, 9000, 2)}, held("k", "x", 1, 0, 600), fault(history.ReplicaFrozen), 0},
		{"a replica is frozen, which has no write lock", "mariadb+mariadb", []history.Wait{wait("a", "k", 0, 10, 9000, 2)}, held("k", "x", 1, 0, 600), fault(history.ReplicaFrozen), 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := clean(1)
			h.Run.Cell, h.Waits = c.cell, append(h.Waits, c.waits...)
			h.Holds = append(h.Holds, c.holds...)
			if c.window != nil {
				h.Windows = append(h.Windows, *c.window)
			}
			n := 0
			for _, v := range Judge(h).Violations {
				if v.Invariant == InTurn {
					n++
				}
			}
			if n != c.want {
				t.Errorf("%d violations, want %d", n, c.want)
			}
		})
	}
}
