package sqllock_test

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/sqllock"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// Batches of many workers over the same keys, in one order, never deadlock, and share no key.
func TestBatchesDoNotDeadlock(t *testing.T) {
	t.Parallel()
	for _, mode := range []sqllock.Mode{sqllock.Lease, sqllock.Row} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			dsn := servers.MySQL(t)
			var all []string
			for i := range 60 {
				all = append(all, fmt.Sprintf("key-%02d", i))
			}
			var mu sync.Mutex
			holder := map[string]int{}
			var wg sync.WaitGroup
			for w := range 16 {
				wg.Go(func() {
					db, err := sql.Open("mysql", dsn)
					if err != nil {
						t.Error(err)
						return
					}
					defer db.Close()
					s, err := sqllock.New(db, sqllock.MySQL, sqllock.Options{Mode: mode}).Open(t.Context(), driver.Open{Namespace: "n", TTL: 20 * time.Second})
					if err != nil {
						t.Error(err)
						return
					}
					defer s.Close(t.Context())
					rnd := rand.New(rand.NewPCG(uint64(w), 1))
					for round := range 6 {
						pick := slices.Clone(all)
						rnd.Shuffle(len(pick), func(i, j int) { pick[i], pick[j] = pick[j], pick[i] })
						pick = pick[:12]
						slices.Sort(pick)
						var wants []driver.Want
						for _, key := range pick {
							wants = append(wants, driver.Want{Key: key})
						}
						results, err := s.TryAcquire(t.Context(), fmt.Sprint(w, "-", round), wants)
						if err != nil {
							t.Errorf("worker %d, round %d: %v", w, round, err)
							return
						}
						var held []driver.Held
						mu.Lock()
						for i, r := range results {
							if r.Token == 0 {
								continue
							}
							held = append(held, driver.Held{Key: pick[i], Token: r.Token})
							if other, taken := holder[pick[i]]; taken {
								t.Errorf("%s is held by %d and %d", pick[i], other, w)
							}
							holder[pick[i]] = w
						}
						mu.Unlock()
						mu.Lock()
						for _, h := range held {
							delete(holder, h.Key)
						}
						mu.Unlock()
						if err := s.Release(t.Context(), held); err != nil {
							t.Errorf("worker %d, round %d: release: %v", w, round, err)
						}
					}
				})
			}
			wg.Wait()
		})
	}
}
