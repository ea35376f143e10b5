package scenarios

import (
	"fmt"
	"testing"

	"github.com/lockstep-scheduler/lockstep/locks"
)

// Two clients deposit 100 to an account with 200 and withdraw 100, many times: 200 are left. With several keys they transfer
// between two accounts, each in its own direction, and the sum stays.
func TestBankAccount(t *testing.T) {
	each(t, []kind{exclusive, reentrant, several}, func(t *testing.T, s site) {
		times := 100 // by each client
		if !s.caps.FIFO {
			times = 25 // a turn may wait for a poll
		}
		ls := s.lockers(t, 2)
		var a, b cell
		a.add(200)
		b.add(200)
		move := func(client int, amount int64) error {
			r := locks.Request{Key: "a"}
			switch s.kind.name {
			case reentrant.name:
				r.Owner = fmt.Sprint("client ", client)
				return holding(t, ls[client], func() error {
					return holding(t, ls[client], func() error { a.add(amount); return nil }, r)
				}, r)
			case several.name:
				keys := []locks.Request{{Key: "a"}, {Key: "b"}}
				return holding(t, ls[client], func() error { a.add(amount); b.add(-amount); return nil }, keys[client], keys[1-client])
			}
			return holding(t, ls[client], func() error { a.add(amount); return nil }, r)
		}
		crowd(t, 2, func(client int) error {
			for range times {
				if err := move(client, 100); err != nil {
					return err
				}
				if err := move(client, -100); err != nil {
					return err
				}
			}
			return nil
		})
		if a.n.Load() != 200 || b.n.Load() != 200 {
			t.Errorf("%d and %d are left, want 200 each", a.n.Load(), b.n.Load())
		}
		shown.held(t, s, "TestBankAccount", "")
	})
}
