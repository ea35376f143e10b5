// Command rivals measures other task queues as package bench measures Lockstep: what, of which queue, where. It prints one line of
// JSON: {"drain": tasks a second, "processor": seconds of this process for a task} or {"single", "beside", "bulk": tasks a second} or {"pickups", "enqueues": seconds, sorted}.
// Of schedulers in memory it prints {"late": seconds, sorted, "processor": seconds of this process a second}.
//
//	rivals -queue river|river-tuned|asynq -at URL|ADDRESS -what drain|enqueue|pickup -n 50000
//	rivals -queue robfig|gocron -what spread -n 100000 -for 30s
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// queue is a task queue with workers that do nothing.
type queue interface {
	// enqueue adds tasks from first on in one call, or one by one if the queue has no call for several.
	enqueue(ctx context.Context, first, n int) error
	// start runs workers, which call began with the number of each task, until stop.
	start(ctx context.Context, began func(task int)) (stop func(), err error)
	// stored waits until the queue has recorded the ends of all tasks.
	stored(ctx context.Context) error
	close() error
}

// limit is how long a measurement takes at most.
const limit = 5 * time.Minute

func main() {
	name := flag.String("queue", "", "river, river-tuned or asynq")
	at := flag.String("at", "", "the URL of an empty database, or the address of an empty Redis")
	what := flag.String("what", "", "drain, enqueue or pickup")
	n := flag.Int("n", 50_000, "tasks; enqueue: in bulk")
	singles := flag.Int("singles", 1_000, "enqueue: tasks one by one, of each producer")
	workers := flag.Int("workers", 64, "of a queue that is not tuned")
	least := flag.Duration("least", 20*time.Millisecond, "pickup: the shortest pause before a task")
	most := flag.Duration("most", time.Second, "pickup: the longest pause")
	lasts := flag.Duration("for", 30*time.Second, "spread: how long")
	flag.Parse()

	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if *what == "spread" {
		answer, err := spread(ctx, *name, *n, *lasts)
		if err == nil {
			err = json.NewEncoder(os.Stdout).Encode(answer)
		}
		if err != nil {
			fail(err)
		}
		return
	}
	q, err := open(ctx, *name, *at, *workers)
	if err != nil {
		fail(err)
	}
	var answer any
	switch *what {
	case "drain":
		answer, err = drain(ctx, q, *n)
	case "enqueue":
		answer, err = enqueue(ctx, q, *n, *singles)
	case "pickup":
		answer, err = pickup(ctx, q, *n, *least, *most)
	default:
		err = fmt.Errorf("-what %q: drain, enqueue or pickup", *what)
	}
	if err := errors.Join(err, q.close()); err != nil {
		fail(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(answer); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "rivals:", err)
	os.Exit(1)
}

func open(ctx context.Context, name, at string, workers int) (queue, error) {
	switch name {
	case "river":
		return openRiver(ctx, at, riverDefaults(workers))
	case "river-tuned":
		return openRiver(ctx, at, riverTuned)
	case "asynq":
		return openAsynq(at, workers)
	}
	return nil, fmt.Errorf("-queue %q: river, river-tuned or asynq", name)
}

// batch is how many tasks a bulk call has.
const batch = 1_000

func fill(ctx context.Context, q queue, first, n int) error {
	for at := first; at < first+n; at += batch {
		if err := q.enqueue(ctx, at, min(batch, first+n-at)); err != nil {
			return err
		}
	}
	return nil
}

// drain measures from the start of the workers until all ends are stored. A task that was started twice or never is an error.
func drain(ctx context.Context, q queue, n int) (map[string]float64, error) {
	if err := fill(ctx, q, 0, n); err != nil {
		return nil, err
	}
	started := make([]atomic.Int32, n)
	before, began := processor(), time.Now()
	stop, err := q.start(ctx, func(task int) { started[task].Add(1) })
	if err != nil {
		return nil, err
	}
	err = q.stored(ctx)
	took, used := time.Since(began), processor()-before
	stop()
	if err != nil {
		return nil, err
	}
	for i := range started {
		if times := started[i].Load(); times != 1 {
			return nil, fmt.Errorf("task %d was started %d times", i, times)
		}
	}
	return map[string]float64{"drain": float64(n) / took.Seconds(), "processor": used.Seconds() / float64(n)}, nil
}

// processor is the time that the threads of this process have worked.
func processor() time.Duration {
	var used syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used) // of the own process, it has no errors
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

const producers = 8

// enqueue measures without workers.
func enqueue(ctx context.Context, q queue, n, singles int) (map[string]float64, error) {
	one := func(first int) error {
		for i := range singles {
			if err := q.enqueue(ctx, first+i, 1); err != nil {
				return err
			}
		}
		return nil
	}
	out := map[string]float64{}
	for _, m := range []struct {
		what  string
		tasks int
		do    func() error
	}{
		{"single", singles, func() error { return one(0) }},
		{"beside", producers * singles, func() error {
			errs := make([]error, producers)
			var all sync.WaitGroup
			for p := range producers {
				all.Go(func() { errs[p] = one((p + 1) * singles) })
			}
			all.Wait()
			return errors.Join(errs...)
		}},
		{"bulk", n, func() error { return fill(ctx, q, (producers+1)*singles, n) }},
	} {
		began := time.Now()
		if err := m.do(); err != nil {
			return nil, err
		}
		out[m.what] = float64(m.tasks) / time.Since(began).Seconds()
	}
	return out, nil
}

// pickup measures from just before a task is enqueued until an idle worker has begun it.
func pickup(ctx context.Context, q queue, n int, least, most time.Duration) (map[string][]float64, error) {
	const first = 2 // which find connections and statements new
	starts := make(chan time.Time, 1)
	stop, err := q.start(ctx, func(int) { starts <- time.Now() })
	if err != nil {
		return nil, err
	}
	defer stop()
	var took, alone []float64
	for i := range n + first {
		time.Sleep(time.Duration(float64(least) * math.Pow(float64(most)/float64(least), rand.Float64())))
		at := time.Now()
		if err := q.enqueue(ctx, i, 1); err != nil {
			return nil, err
		}
		enqueued := time.Since(at).Seconds()
		select {
		case began := <-starts:
			if i >= first {
				took, alone = append(took, began.Sub(at).Seconds()), append(alone, enqueued)
			}
		case <-ctx.Done():
			return nil, fmt.Errorf("task %d was not started: %w", i, ctx.Err())
		}
	}
	slices.Sort(took)
	slices.Sort(alone)
	return map[string][]float64{"pickups": took, "enqueues": alone}, nil
}
