package sqlkit

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A connection that becomes free is for the one who has waited longest; who gives up waits no more.
func TestConnectionsInTheOrderOfComing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory(t)
		var mu sync.Mutex
		var order, want []int
		var all sync.WaitGroup
		impatient, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		err := db.Autocommit(t.Context(), func(*Tx) error {
			all.Go(func() {
				if err := db.Autocommit(impatient, func(*Tx) error { return nil }); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("who could not wait: %v", err)
				}
			})
			for i := range 50 {
				want = append(want, i)
				all.Go(func() {
					err := db.On(db.Pool).Autocommit(t.Context(), func(*Tx) error {
						mu.Lock()
						defer mu.Unlock()
						order = append(order, i)
						return nil
					})
					if err != nil {
						t.Error(err)
					}
				})
				synctest.Wait() // until it waits
			}
			<-impatient.Done()
			return nil
		})
		all.Wait()
		if err != nil || !slices.Equal(order, want) {
			t.Errorf("served in the order %v, %v", order, err)
		}
	})
}
