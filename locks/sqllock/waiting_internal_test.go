package sqllock

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// waits opens a session on SQLite with places for so many keys, which sessions of other processes hold.
func waits(t *testing.T, keys int) *leaseSession {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "locks.db")+"?_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	begun, err := New(db, SQLite, Options{}).Open(t.Context(), driver.Open{Namespace: "n", TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	s := begun.(*leaseSession)
	for i := range keys {
		s.waiting.add(driver.Place{Acquisition: "1", Key: fmt.Sprintf("k%d", i)}, int64(i), false, 1)
	}
	return s
}

// What a query has found is read once, however many places wait: the session's mutex is held meanwhile.
func TestWhatAPollFindsIsReadOnce(t *testing.T) {
	t.Parallel()
	const keys = 1000
	s := waits(t, keys)
	read := 0
	s.learn(func(yield func(found) bool) {
		for i := range keys {
			for _, kind := range []int{2, 3} {
				read++
				if !yield(found{kind: kind, key: fmt.Sprintf("k%d", i), number: int64(i)}) {
					return
				}
			}
		}
	})
	if read != 2*keys {
		t.Errorf("%d rows were read, of %d", read, 2*keys)
	}
}

// A session may wait for more keys than one statement of SQLite takes parameters for.
func TestAPollForManyKeys(t *testing.T) {
	t.Parallel()
	s := waits(t, 12_000)
	if _, err := s.grants(t.Context()); err != nil {
		t.Error(err)
	}
}

// The counts of keys, by which pauses are chosen, are those of the keys, whatever was entered, noted and taken out.
func TestWaitingCountsKeys(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 1))
	var w waiting
	for range 5000 {
		p := driver.Place{Acquisition: fmt.Sprint(random.IntN(3)), Key: fmt.Sprint(random.IntN(4))}
		near, n := random.IntN(2) == 0, random.Int64N(4)
		switch random.IntN(4) {
		case 0:
			w.add(p, n, near, driver.Token(n))
		case 1:
			w.remove(p)
			if w.has(p) {
				t.Fatalf("%+v was taken out and is there", p)
			}
		case 2:
			w.heldBy(p.Key, near, driver.Token(n))
			if k := w.keys[p.Key]; k != nil && k.near != near {
				t.Fatalf("%s: near is %t", p.Key, k.near)
			}
		case 3:
			w.first(p.Key, n)
		}
		far, soon := 0, 0
		for _, k := range w.keys {
			if !k.near {
				far++
			}
			if !k.near && k.next {
				soon++
			}
		}
		if w.far != far || w.soon != soon {
			t.Fatalf("%d keys are held elsewhere, and the session is next for %d; counted are %d and %d", far, soon, w.far, w.soon)
		}
	}
}

// A place that was taken behind an older holder does not hide that the key has gone to another process since, and one that is far
// behind is not the next.
func TestWaitingKeepsTheNewest(t *testing.T) {
	t.Parallel()
	var w waiting
	w.add(driver.Place{Acquisition: "1", Key: "k"}, 5, true, 7)
	if w.far != 0 {
		t.Error("a key of this process counts as held elsewhere")
	}
	if !w.heldBy("k", false, 9) || w.far != 1 || w.soon != 1 {
		t.Errorf("another process has it: %+v", w)
	}
	if w.heldBy("k", false, 9) {
		t.Error("the same holder again is news")
	}
	w.add(driver.Place{Acquisition: "2", Key: "k"}, 6, true, 8)
	if w.far != 1 {
		t.Error("an older holder hides the last one")
	}
	if !w.first("k", 4) || w.soon != 0 || w.first("k", 3) {
		t.Errorf("another place is before these: %+v", w)
	}
	w.remove(driver.Place{Acquisition: "1", Key: "k"})
	if !w.first("k", 6) || w.soon != 1 {
		t.Errorf("its place is the first: %+v", w)
	}
	w.add(driver.Place{Acquisition: "3", Key: "k"}, 9, true, 10)
	if w.far != 0 {
		t.Error("a later holder is of this process")
	}
}
