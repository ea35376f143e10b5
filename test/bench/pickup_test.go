package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

// The least and the longest pause between two tasks.
const (
	pickupLeast = 20 * time.Millisecond
	pickupMost  = time.Second
)

// BenchmarkPickup measures from just before a task is enqueued until its handler begins, in a replica of another process that has
// nothing else to do.
func BenchmarkPickup(b *testing.B) {
	names := make([]string, len(variants))
	for i, k := range variants {
		names[i] = k.name
	}
	for _, v := range rivals {
		names = append(names, v.name)
	}
	names = chosen(b, names...)
	t := newTable(b, fmt.Sprintf("From enqueue to start, an idle replica in another process, a task each %v to %v", pickupLeast, pickupMost),
		"", "p50 (min – max)", "p99 (min – max)", "longest (min – max)", "the enqueue alone, p50")
	p50, p99, most, alone := make([]samples, len(names)), make([]samples, len(names)), make([]samples, len(names)), make([]samples, len(names))
	takeTurns(b, len(names), func(r *round, i int) {
		took, enqueue := timesOf(r, names[i])
		p50[i] = append(p50[i], took[len(took)/2])
		p99[i] = append(p99[i], took[len(took)*99/100])
		most[i] = append(most[i], took[len(took)-1])
		alone[i] = append(alone[i], enqueue[len(enqueue)/2])
	})
	for i, name := range names {
		t.add(name, p50[i].spread(lasting), p99[i].spread(lasting), most[i].spread(lasting), lasting(alone[i].median()))
	}
	t.print()
}

// timesOf measures one of them. What is compared enqueues by connections of its own, in the process with the worker.
func timesOf(r *round, name string) (took, enqueue samples) {
	for _, v := range rivals {
		if v.name == name {
			m := v.measure(r, "pickup", "-n", sized().pickups, "-least", pickupLeast, "-most", pickupMost)
			return m.Pickups, m.Enqueues
		}
	}
	return pickup(r, kindOf(r, name))
}

func kindOf(tb testing.TB, name string) kind {
	tb.Helper()
	i := slices.IndexFunc(variants, func(k kind) bool { return k.name == name })
	if i < 0 {
		tb.Fatalf("no kind %q", name)
	}
	return variants[i]
}

// elsewhereOf is the variable of the process with the replica: a site, as JSON.
const elsewhereOf = "LOCKSTEP_BENCH_ELSEWHERE"

func pickupSet(began func(t jobs.Task)) jobs.Set {
	return jobs.Set{Pools: map[string]jobs.Pool{drainPool: {
		Handler: jobs.Func(func(_ context.Context, t jobs.Task, _ struct{}) error { began(t); return nil }),
	}}}
}

// pickup returns sorted times in seconds: until a handler began, and of the enqueue.
func pickup(r *round, k kind) (took, enqueue samples) {
	ctx, cancel := context.WithTimeout(r.Context(), 5*time.Minute)
	defer cancel()
	s := k.open(r)
	st := s.store(r)
	s.define(r, st, pickupSet(nil))
	began := elsewhere(r, s)
	waker, err := scheduler.NewWaker(st, s.locker(r))
	if err != nil {
		r.Fatal(err)
	}
	waking, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- waker.Run(waking) }()
	defer func() { stop(); <-ended }()
	for i := range sized().pickups + 2 { // the first ones find connections and statements new
		time.Sleep(logUniform(pickupLeast, pickupMost))
		at := time.Now()
		done, err := st.Enqueue(ctx, jobs.NewTask{Pool: drainPool})
		if err != nil {
			r.Fatal(err)
		}
		alone := time.Since(at)
		id, start := began()
		if id != done[0].Task.ID {
			r.Fatalf("%s: task %s began, and %s was enqueued", k.name, id, done[0].Task.ID)
		}
		if i >= 2 {
			took = append(took, float64(start-at.UnixNano())/1e9)
			enqueue = append(enqueue, alone.Seconds())
		}
	}
	slices.Sort(took)
	slices.Sort(enqueue)
	return took, enqueue
}

// logUniform is a duration between two, with as many below their geometric mean as above it.
func logUniform(least, most time.Duration) time.Duration {
	return time.Duration(float64(least) * math.Pow(float64(most)/float64(least), rand.Float64()))
}

// elsewhere runs a replica in another process until the round ends. began waits for its next start of a task.
func elsewhere(r *round, s *site) (began func() (id string, at int64)) {
	r.Helper()
	where, err := json.Marshal(s)
	if err != nil {
		r.Fatal(err)
	}
	_, next := otherProcess(r, "the replica", "TestElsewhere", elsewhereOf+"="+string(where))
	next("ready")
	return func() (string, int64) {
		words := strings.Fields(next("began"))
		at, err := strconv.ParseInt(words[1], 10, 64)
		if err != nil {
			r.Fatal(err)
		}
		return words[0], at
	}
}

// TestElsewhere is the other process of BenchmarkPickup, and nothing without its variable.
func TestElsewhere(t *testing.T) {
	where := os.Getenv(elsewhereOf)
	if where == "" {
		return
	}
	var s site
	if err := json.Unmarshal([]byte(where), &s); err != nil {
		t.Fatal(err)
	}
	out := make(chan string, 100)
	replica := s.replica(t, "elsewhere", &meter{}, pickupSet(func(task jobs.Task) {
		at := time.Now().UnixNano()
		out <- fmt.Sprintln("began", task.ID, at)
	}), drainWorkers)
	run(t, replica)
	await.Until(t, "the replica is ready", func() bool {
		return !slices.ContainsFunc(replica.Health(), func(c wire.Condition) bool { return !c.Ready })
	})
	fmt.Println("ready")
	over := make(chan struct{})
	go func() { defer close(over); _, _ = io.Copy(io.Discard, os.Stdin) }()
	for {
		select {
		case line := <-out:
			fmt.Print(line)
		case <-over:
			return
		}
	}
}
