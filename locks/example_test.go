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
		case a.Holder != nil: // it is busy
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

// What asks again under the same Owner gets the same hold: a function that locks may call another that does.
func ExampleRequest_reentrant() {
	ctx := context.Background()
	l, err := locks.New(memlock.New(), locks.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close(ctx)

	mine := locks.Request{Key: "user/ledger", Owner: "import-7"}
	err = locks.Do(ctx, l, mine, func(ctx context.Context, outer locks.Token) error {
		return locks.Do(ctx, l, mine, func(_ context.Context, inner locks.Token) error {
			fmt.Println("one hold:", inner == outer)
			return nil
		})
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: one hold: true
}

// However long the work takes, the key is given back after a while.
func ExampleRequest_maxHold() {
	ctx := context.Background()
	l, err := locks.New(memlock.New(), locks.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close(ctx)

	leases, err := l.Acquire(ctx, locks.Request{Key: "uplink", MaxHold: 20 * time.Millisecond})
	if err != nil {
		log.Fatal(err)
	}
	<-leases[0].Context().Done()
	fmt.Println("given back:", errors.Is(leases[0].Check(), locks.ErrReleased))
	// Output: given back: true
}

// The deadline of the context ends the wait and gives the place back. The error says who was in the way.
func ExampleLocker_Acquire_deadline() {
	ctx := context.Background()
	service := memlock.New()
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
	if _, err := one.Acquire(ctx, locks.Request{Key: "report"}); err != nil {
		log.Fatal(err)
	}

	waiting, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	_, err = two.Acquire(waiting, locks.Request{Key: "report"})
	fmt.Println("too late:", errors.Is(err, context.DeadlineExceeded), "– busy:", errors.Is(err, locks.ErrBusy))
	// Output: too late: true – busy: true
}

// The token goes to what the lock guards, which refuses smaller ones than it has seen.
func ExampleLease_Token() {
	ctx := context.Background()
	l, err := locks.New(memlock.New(), locks.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close(ctx)

	var seen locks.Token
	write := func(token locks.Token) bool { // in SQL: UPDATE … SET token = ? WHERE token <= ?
		if token < seen {
			return false
		}
		seen = token
		return true
	}
	var tokens []locks.Token
	for range 2 {
		leases, err := l.Acquire(ctx, locks.Request{Key: "report"})
		if err != nil {
			log.Fatal(err)
		}
		tokens = append(tokens, leases[0].Token())
		if err := leases[0].Release(ctx); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println("the later holder writes:", write(tokens[1]))
	fmt.Println("the earlier one:", write(tokens[0]))
	// Output:
	// the later holder writes: true
	// the earlier one: false
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
