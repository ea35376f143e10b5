package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

func ExampleSchedule_Next() {
	s, err := jobs.ParseSchedule([]string{"30 2 * * *"}, "America/New_York")
	if err != nil {
		fmt.Println(err)
		return
	}
	// The clock jumps from 2:00 to 3:00 on the 8th of March: the skipped time is due at the jump.
	for at := time.Date(2026, 3, 7, 0, 0, 0, 0, time.UTC); at.Day() < 9; {
		at = s.Next(at)
		fmt.Println(at.Format(time.RFC3339))
	}
	// Output:
	// 2026-03-07T07:30:00Z
	// 2026-03-08T07:00:00Z
	// 2026-03-09T06:30:00Z
}

func ExampleParseSchedule_refused() {
	for _, spec := range []string{"60 * * * *", "*/60 * * * *", "0 0 30 2 *"} {
		_, err := jobs.ParseSchedule([]string{spec}, "")
		fmt.Println(err)
	}
	// Output:
	// invalid schedule "60 * * * *": minute: 60 is out of range 0–59
	// invalid schedule "*/60 * * * *": minute: "*/60": step 60 is larger than the range, so only 0 would be left; write 0, or a smaller step
	// invalid schedule "0 0 30 2 *": day of month: no such day in these months, it would never fire
}

type Welcome struct{ User int }

func sendWelcome(_ context.Context, t jobs.Task, w Welcome) error {
	fmt.Printf("welcome %d, attempt %d\n", w.User, t.Attempt)
	return nil
}

// An attempt ends in one of four ways.
func ExampleCancel() {
	try := func(_ context.Context, _ jobs.Task, status int) error {
		switch status {
		case 200:
			return nil
		case 404:
			return jobs.Cancel(errors.New("no such user")) // ends the task
		case 429:
			return jobs.RetryAfter(time.Minute, errors.New("too many requests"))
		}
		return fmt.Errorf("status %d", status) // another attempt, after the usual backoff
	}
	for _, status := range []string{"200", "404", "429", "500"} {
		err := jobs.Func(try).Run(context.Background(), jobs.Task{Payload: []byte(status)}, nil)
		after, chosen := jobs.RetryDelay(err)
		fmt.Println(err, jobs.IsCancel(err), chosen, after)
	}
	// Output:
	// <nil> false false 0s
	// cancelled by its handler: no such user true false 0s
	// too many requests false true 1m0s
	// status 500 false false 0s
}

// Everything that is wrong with a set is reported at once, as it is for a YAML file.
func ExampleSet_Validate() {
	err := jobs.Set{
		Pools: map[string]jobs.Pool{"mail": {Workers: -1}},
		Jobs:  map[string]jobs.Job{"digest": {Schedule: "0 25 * * *", Pool: "mial", Handler: jobs.Func(sendWelcome)}},
	}.Validate()
	fmt.Println(err)
	// Output:
	// pools.mail.workers: -1 is out of range 0–10000
	// jobs.digest.schedule: hour: 25 is out of range 0–23
	// jobs.digest.pool: there is no pool "mial"; defined are default, mail
}

func ExampleFunc() {
	set := jobs.Set{Pools: map[string]jobs.Pool{
		"mail": {Workers: 20, MaxRunning: 100, Kinds: map[string]jobs.Handler{"welcome": jobs.Func(sendWelcome)}},
	}}
	fmt.Println(set.Validate())
	_ = set.Pools["mail"].Kinds["welcome"].Run(context.Background(), jobs.Task{Attempt: 1, Payload: []byte(`{"User":7}`)}, nil)
	// Output:
	// <nil>
	// welcome 7, attempt 1
}

type Receipt struct{ Order int }

// In a program, a variable beside those for whom it is.
var receipts = jobs.NewKind[Receipt]("mail", "receipt")

func sendReceipt(_ context.Context, t jobs.Task, r Receipt) error {
	fmt.Println("receipt for order", r.Order)
	return nil
}

func ExampleTask_Progress() {
	imports := jobs.Func(func(_ context.Context, t jobs.Task, files []string) error {
		for i, name := range files {
			if err := t.Progress(float64(i)/float64(len(files)), name); err != nil {
				return err
			}
		}
		return t.SetResult(map[string]int{"files": len(files)})
	})
	fmt.Println(imports.Run(context.Background(), jobs.Task{Payload: []byte(`["a.csv", "b.csv"]`)}, io.Discard))
	// Output: <nil>
}

func ExampleNewKind() {
	set := jobs.Set{Pools: map[string]jobs.Pool{"mail": {Kinds: jobs.Kinds(receipts.Handle(sendReceipt))}}}
	fmt.Println(set.Validate())

	task := receipts.New(Receipt{Order: 7}) // for the store's Enqueue; nothing but a Receipt compiles
	task.IdempotencyKey = "receipt-7"
	payload, err := task.Encode()
	fmt.Println(task.Pool, task.Kind, string(payload), err)

	_ = set.Pools["mail"].Kinds["receipt"].Run(context.Background(), jobs.Task{Payload: payload}, nil)
	// Output:
	// <nil>
	// mail receipt {"Order":7} <nil>
	// receipt for order 7
}

// What is around a handler changes nothing in what it is.
func ExampleWrap() {
	logged := func(next jobs.Handler) jobs.Handler {
		return jobs.HandlerFunc(func(ctx context.Context, t jobs.Task, out io.Writer) error {
			err := next.Run(ctx, t, out)
			fmt.Printf("%s: attempt %d ended with %v\n", t.Kind, t.Attempt, err)
			return err
		})
	}
	plain := jobs.Func(sendWelcome)
	wrapped := jobs.Wrap(plain, logged)
	_ = wrapped.Run(context.Background(), jobs.Task{Kind: "welcome", Attempt: 1, Payload: []byte(`{"User":7}`)}, io.Discard)
	fmt.Println(jobs.Job{Handler: wrapped}.Hash() == jobs.Job{Handler: plain}.Hash())
	// Output:
	// welcome 7, attempt 1
	// welcome: attempt 1 ended with <nil>
	// true
}

// What a function literal captures cannot be seen. With names, replicas notice that another team is told.
func ExampleNamed() {
	tell := func(team string) jobs.Handler {
		return jobs.Named("tell "+team, jobs.Func(func(_ context.Context, _ jobs.Task, n jobs.Notification) error {
			fmt.Println(team, n.Text)
			return nil
		}))
	}
	before := jobs.Job{Handler: jobs.Func(sendWelcome), Notify: jobs.Notify{Handler: tell("storage")}}
	after := jobs.Job{Handler: jobs.Func(sendWelcome), Notify: jobs.Notify{Handler: tell("sales")}}
	fmt.Println(before.Hash() == after.Hash())
	// Output:
	// false
}
