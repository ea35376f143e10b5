package lockstest

import (
	"context"
	"crypto/rand"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

var batch = []testCase{
	{"batch/100 keys, half of them busy", func(t *testing.T, s *suite) {
		ns, keys := namespace(), numbered(100)
		a, b := s.kept(t, s.client(t), ns), s.kept(t, s.client(t), ns)
		var even []string
		for i := 0; i < len(keys); i += 2 {
			even = append(even, keys[i])
		}
		first := s.takeAll(t, a, even...)
		results := s.try(t, b, keys...)
		var second []driver.Held
		for i, r := range results {
			if i%2 == 1 {
				if r.Token == 0 {
					t.Fatalf("%s is free but was not granted: %+v", keys[i], r.Holder)
				}
				second = append(second, driver.Held{Key: keys[i], Token: r.Token})
				continue
			}
			if r.Holder == nil {
				t.Fatalf("%s is held but was granted", keys[i])
			}
			h := *r.Holder
			if h.Token != first[i/2].Token || h.Session != a.ID() || h.Meta != "meta of "+keys[i] ||
				h.Owner != "owner of "+t.Name() {
				t.Fatalf("holder of %s: %+v, want session %s, token %d, and owner and meta", keys[i], h, a.ID(), first[i/2].Token)
			}
		}
		free(t, a, first...)
		for i, ok := range check(t, b, second) {
			if !ok {
				t.Errorf("%s was freed with others' keys", second[i].Key)
			}
		}
		for i, r := range s.try(t, a, keys...) {
			if free := i%2 == 0; free != (r.Token > 0) {
				t.Errorf("%s: token %d, want it granted: %v", keys[i], r.Token, free)
			}
		}
	}},
	{"batch/check answers for each key", func(t *testing.T, s *suite) {
		c := s.kept(t, s.client(t), namespace())
		held := s.takeAll(t, c, "user/a", "user/b", "user/c")
		free(t, c, held[1])
		held = append(held, driver.Held{Key: "user/never", Token: 1})
		held[2].Token++
		for i, want := range []bool{true, false, false, false} {
			if got := check(t, c, held)[i]; got != want {
				t.Errorf("check of %+v: %v, want %v", held[i], got, want)
			}
		}
	}},
	{"batch/nothing", func(t *testing.T, s *suite) {
		c := s.kept(t, s.client(t), namespace())
		free(t, c)
		if got := check(t, c, nil); len(got) != 0 {
			t.Errorf("check of nothing: %v", got)
		}
	}},
	{"batch/overlapping", overlapping},
}

// overlapping: batches that share keys neither wait for each other for ever nor share a key.
func overlapping(t *testing.T, s *suite) {
	ns, keys := namespace(), numbered(20)
	holders := make([]atomic.Int64, len(keys))
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	rounds := 10
	if s.Brief { // a variant may need a handshake for each key
		rounds = 2
	}
	var all sync.WaitGroup
	for range 4 {
		c := s.warm(t, ns)
		all.Go(func() {
			for range rounds {
				results, err := c.TryAcquire(ctx, rand.Text(), Wants(keys...))
				if err != nil {
					t.Errorf("acquire: %v", err)
					return
				}
				var held []driver.Held
				for i, r := range results {
					if err := sound(keys[i], r); err != nil {
						t.Error(err)
					}
					if r.Token == 0 {
						continue
					}
					held = append(held, driver.Held{Key: keys[i], Token: r.Token})
					if n := holders[i].Add(1); n != 1 {
						t.Errorf("%s has %d holders", keys[i], n)
					}
				}
				for i, r := range results {
					if r.Token > 0 {
						holders[i].Add(-1)
					}
				}
				if err := c.Release(ctx, held); err != nil {
					t.Errorf("release: %v", err)
					return
				}
			}
		})
	}
	all.Wait()
}
