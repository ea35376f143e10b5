package locks_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/memlock"
)

func Example() {
	ctx := context.Background()
	service := memlock.New() // or redislock, zklock, sqllock
	one, err := locks.New(service, locks.Options{Owner: "one"})
	if err != nil {
		log.Fatal(err)
	}
	defer one.Close(ctx)
	two, err := locks.New(service, locks.Options{Owner: "two"})
	if err != nil {
		log.Fatal(err)
	}
	defer two.Close(ctx)

	got, err := one.TryAcquire(ctx, locks.Request{Key: "user/a"})
	if err != nil {
		log.Fatal(err) // nothing was granted
	}
	fmt.Println("one has it:", got[0].Lease.Check() == nil)

	got, err = two.TryAcquire(ctx, locks.Request{Key: "user/a"}, locks.Request{Key: "user/b"})
	if err != nil {
		log.Fatal(err)
	}
	for _, a := range got {
		switch {
		case a.Lease != nil:
			fmt.Println("two has", a.Lease.Key())
		case errors.Is(a.Err, locks.ErrBusy):
			fmt.Println(a.Holder.Owner, "has", a.Holder.Key)
		}
	}
	// Output:
	// one has it: true
	// one has user/a
	// two has user/b
}

func ExampleLocker_Acquire() {
	ctx := context.Background()
	l, err := locks.New(memlock.New(), locks.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close(ctx)

	waiting, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	leases, err := l.Acquire(waiting, locks.Request{Key: "user/from"}, locks.Request{Key: "user/to"}) // both, or none
	if err != nil {
		log.Fatal(err)
	}
	defer l.Release(ctx, leases...)
	fmt.Println("has", leases[0].Key(), "and", leases[1].Key())
	// Output: has user/from and user/to
}

// Of all processes that run this, one works at a time.
func ExampleLead() {
	l, err := locks.New(memlock.New(), locks.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close(context.Background())

	ctx, stop := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer stop()
	err = locks.Lead(ctx, l, "reports", func(ctx context.Context, token locks.Token) error {
		fmt.Println("leads:", token > 0)
		<-ctx.Done() // until the lock is lost, or ctx of Lead ends
		return ctx.Err()
	})
	fmt.Println(err)
	// Output:
	// leads: true
	// <nil>
}

// A semaphore: three may work at once, in all processes.
func ExampleRequest_limit() {
	ctx := context.Background()
	l, err := locks.New(memlock.New(), locks.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close(ctx)

	permits, err := l.TryAcquire(ctx, locks.Request{Key: "user/uplink", Limit: 3})
	if err != nil {
		log.Fatal(err)
	}
	defer permits[0].Lease.Release(ctx)
	fmt.Println("has one of three:", permits[0].Err == nil)
	// Output: has one of three: true
}

// Readers together; a writer alone would use locks.Exclusive, the default.
func ExampleRequest_shared() {
	ctx := context.Background()
	l, err := locks.New(memlock.New(), locks.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close(ctx)

	reader := locks.Request{Key: "user/schema", Mode: locks.Shared}
	err = locks.Do(ctx, l, reader, func(ctx context.Context, _ locks.Token) error {
		return locks.Do(ctx, l, reader, func(context.Context, locks.Token) error {
			fmt.Println("two readers at once")
			return nil
		})
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: two readers at once
}

func ExampleDo() {
	ctx := context.Background()
	l, err := locks.New(memlock.New(), locks.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close(ctx)

	err = locks.Do(ctx, l, locks.Request{Key: "user/report"}, func(ctx context.Context, token locks.Token) error {
		// ctx ends when the lock is lost. Hand token to what the lock guards.
		fmt.Println("working:", token > 0)
		return nil
	})
	fmt.Println(err)
	// Output:
	// working: true
	// <nil>
}
