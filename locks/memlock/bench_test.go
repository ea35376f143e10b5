package memlock_test

import (
	"fmt"
	"testing"

	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/memlock"
)

// BenchmarkPair acquires and releases keys with one call each: what the portable layer costs, since memlock does no I/O.
func BenchmarkPair(b *testing.B) {
	for _, keys := range []int{1, 100} {
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) {
			l, err := locks.New(memlock.New(), locks.Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close(b.Context())
			requests := make([]locks.Request, keys)
			for i := range requests {
				requests[i].Key = fmt.Sprintf("user/bench/%03d", i)
			}
			b.ReportAllocs()
			for b.Loop() {
				attempts, err := l.TryAcquire(b.Context(), requests...)
				if err != nil {
					b.Fatal(err)
				}
				leases := make([]*locks.Lease, keys)
				for i, a := range attempts {
					leases[i] = a.Lease
				}
				if err := l.Release(b.Context(), leases...); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
