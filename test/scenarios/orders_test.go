package scenarios

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks"
)

// 10 clients make order numbers of the time and a counter that nothing else protects. All numbers differ, and they grow in the
// order of the grants, which is that of the tokens.
func TestOrderNumbers(t *testing.T) {
	each(t, one, func(t *testing.T, s site) {
		const clients = 10
		orders := s.clients(200) / clients // of each
		ls := s.lockers(t, clients)
		type order struct {
			token  locks.Token
			number string
		}
		var counter cell
		began := time.Now()
		number := func() string {
			now := began.Add(time.Since(began)) // a step of the clock does not matter here
			runtime.Gosched()
			counter.add(1)
			return fmt.Sprintf("%s-%06d", now.UTC().Format("20060102150405.000"), counter.n.Load())
		}
		var mu sync.Mutex
		var made []order
		crowd(t, clients, func(i int) error {
			for range orders {
				leases, err := ls[i].Acquire(t.Context(), alone(s.kind, "orders", i)...)
				if err != nil {
					return err
				}
				o := order{leases[0].Token(), number()}
				if err := ls[i].Release(t.Context(), leases...); err != nil {
					return err
				}
				mu.Lock()
				made = append(made, o)
				mu.Unlock()
			}
			return nil
		})
		slices.SortFunc(made, func(a, b order) int { return cmp.Compare(a.token, b.token) })
		for i := 1; i < len(made); i++ {
			if made[i].number <= made[i-1].number {
				t.Errorf("order %s was granted after %s", made[i].number, made[i-1].number)
			}
		}
		if len(made) != clients*orders {
			t.Errorf("%d orders, want %d", len(made), clients*orders)
		}
		shown.held(t, s, "TestOrderNumbers", "")
	})
}
