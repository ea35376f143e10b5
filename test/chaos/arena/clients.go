//go:build linux

package arena

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// Clients are the users of the replicas: some enqueue, one operates.
type Clients struct {
	arena  *Arena
	caller *caller
	acked  acked
}

// Rates of the work: each enqueuer calls so often, with lists now and then.
const (
	enqueuers    = 3
	betweenCalls = 400 * time.Millisecond
)

// Work runs clients until ctx ends, then resumes what they paused and suspended; that takes live replicas, and
// 30 s at most. The same seed makes the same choices.
func (a *Arena) Work(ctx context.Context, seed uint64) error {
	asks, err := history.OpenLog[history.Ask](a.Dir, history.AsksFile)
	if err != nil {
		return err
	}
	defer asks.Close()
	c := &Clients{arena: a, caller: &caller{http: a.http, asks: asks, asked: &a.asked, note: a.note}}
	var working sync.WaitGroup
	for i := range enqueuers {
		working.Go(func() { c.enqueue(ctx, i, rand.New(rand.NewPCG(seed, uint64(i)))) })
	}
	m := &operator{Clients: c, rand: rand.New(rand.NewPCG(seed, enqueuers))}
	working.Go(func() { m.operate(ctx) })
	working.Wait()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	return m.takeBack(ctx)
}

// any is a replica that may answer, as behind a load balancer.
func (c *Clients) any(r *rand.Rand) *Replica {
	n := len(c.arena.Replicas)
	first := r.IntN(n)
	for i := range n {
		if one := c.arena.Replicas[(first+i)%n]; one.Alive() {
			return one
		}
	}
	return c.arena.Replicas[first]
}

// batch is what one call enqueues. It may be sent again, with the same keys.
type batch struct {
	pool  string
	tasks []newTask
	tries int
}

type newTask struct {
	Payload        history.Does `json:"payload"`
	IdempotencyKey string       `json:"idempotency_key,omitempty"`
	Key            string       `json:"key,omitempty"`
	Kind           string       `json:"kind,omitempty"`
	Priority       int          `json:"priority,omitempty"`
	RunAt          string       `json:"run_at,omitempty"`
	ExpiresAt      string       `json:"expires_at,omitempty"`
	Unique         *unique      `json:"unique,omitempty"`
}

type unique struct {
	By    []string `json:"by"`
	While string   `json:"while"`
}

const maxTries = 20

// enqueue sends batches until ctx ends. A call with an unknown outcome is sent again; some are sent again for
// no reason.
func (c *Clients) enqueue(ctx context.Context, client int, r *rand.Rand) {
	var again []batch
	for n := 0; ; n++ {
		p := batch{}
		if len(again) > 0 && r.IntN(2) == 0 {
			p, again = again[0], again[1:]
		} else {
			p = newBatch(client, n, r)
		}
		p.tries++
		known := c.call(ctx, p, r)
		if !known && p.tries < maxTries || known && p.tries == 1 && r.IntN(20) == 0 {
			again = append(again, p)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(betweenCalls/2 + rand.N(betweenCalls)):
		}
	}
}

func newBatch(client, n int, r *rand.Rand) batch {
	pools := []string{"web", "web", "web", "web", "web", "web", "once", "command", "command", "narrow", "rated", "rated", "rated", "keyed", "keyed", "ordered", "ordered", "kinds", "kinds", "mixed", "mixed", "unique", "unique", "hands", "hands", "hands", "fragile", "fragile"}
	p := batch{pool: pools[r.IntN(len(pools))]}
	// A worker can be struck while it runs something, and only then: there is nearly always a task that takes seconds.
	long := client == 0 && n%4 == 0
	if long {
		p.pool = poolOfWorkers
	}
	if p.pool == "command" && r.IntN(4) == 0 {
		p.pool = "turn" // few: one runs at a time
	}
	size := 1
	if r.IntN(4) == 0 && !long {
		size = 2 + r.IntN(7)
	}
	if p.pool == "command" || p.pool == "narrow" || p.pool == "turn" {
		size = min(size, 3) // a process each
	}
	for i := range size {
		t := newTask{IdempotencyKey: fmt.Sprintf("c%d-%d-%d", client, n, i), Priority: r.IntN(5) - 2}
		t.Payload.Takes = (time.Duration(r.IntN(400)) * time.Millisecond).String()
		if p.pool == "keyed" || p.pool == "ordered" || p.pool == "mixed" {
			t.Key = []string{"", "a", "b", "b", "c", "c", "c"}[r.IntN(7)]
		}
		if p.pool == "kinds" || p.pool == "mixed" {
			t.Kind = []string{"a", "a", "b", "b", "c"}[r.IntN(5)]
		}
		if p.pool == "unique" { // without a key that is judged before
			t.Key, t.IdempotencyKey = []string{"a", "b", "c"}[r.IntN(3)], ""
			t.Unique = &unique{By: []string{"key"}, While: "open"}
		}
		if p.pool == poolOfWorkers && r.IntN(5) < 2 { // its worker may get it again
			t.Payload.Fails = 1
		}
		if p.pool == poolThatFails && r.IntN(3) > 0 {
			t.Payload.Fails = 5
		}
		if r.IntN(10) == 0 {
			t.Payload.Fails = 1 + r.IntN(5) // some never succeed
		}
		if long || r.IntN(12) == 0 { // long enough to be cancelled, or to lose its replica
			t.Payload.Takes = (2*time.Second + time.Duration(r.IntN(2000))*time.Millisecond).String()
		}
		if p.pool == "command" && r.IntN(3) == 0 { // long enough to outlive its replica's session
			t.Payload.Takes = (5*time.Second + time.Duration(r.IntN(5000))*time.Millisecond).String()
			t.Payload.IgnoresTerm = r.IntN(2) == 0
		}
		if p.pool == "web" && r.IntN(12) == 0 { // its next attempt comes much later
			t.Payload.Takes = (2*time.Second + time.Duration(r.IntN(3000))*time.Millisecond).String()
			t.Payload.Fails = 1 + r.IntN(2)
		}
		expires := p.pool == "narrow" || p.pool == "rated" || p.pool == "mixed" || p.pool == poolThatFails || p.pool == poolOfWorkers
		switch n := r.IntN(15); {
		case long:
		case n == 0:
			t.RunAt = time.Now().Add(time.Duration(r.IntN(5000)) * time.Millisecond).UTC().Format(time.RFC3339Nano)
		case n < 5 && expires: // soon, where tasks have to wait; a call that arrives after it is refused
			t.ExpiresAt = time.Now().Add(time.Duration(100+r.IntN(1000)) * time.Millisecond).UTC().Format(time.RFC3339Nano)
		}
		p.tasks = append(p.tasks, t)
	}
	return p
}

// call sends a batch; false if its outcome is unknown. Unique tasks are sent by two clients at the same time.
func (c *Clients) call(ctx context.Context, p batch, r *rand.Rand) bool {
	var twin sync.WaitGroup
	defer twin.Wait()
	if p.pool == "unique" {
		own := rand.New(rand.NewPCG(r.Uint64(), 0))
		twin.Go(func() { c.send(ctx, p, own) })
	}
	return c.send(ctx, p, r)
}

// send makes one call; false if its outcome is unknown.
func (c *Clients) send(ctx context.Context, p batch, r *rand.Rand) bool {
	var answer struct{ Items []struct{ ID string } }
	var body any = p.tasks
	var header http.Header
	if len(p.tasks) == 1 {
		one := p.tasks[0]
		if p.tries%2 == 1 && one.IdempotencyKey != "" { // both ways to name a key
			header = http.Header{"Idempotency-Key": {one.IdempotencyKey}}
			one.IdempotencyKey = ""
		}
		body = one
	}
	// Calls under way when the clients stop may take their time.
	a := c.caller.ask(context.WithoutCancel(ctx), c.any(r), history.Ask{What: "enqueue", Target: p.pool}, "/api/v1/pools/"+p.pool+"/tasks", header, body, &answer)
	if a.Answer == ok && len(answer.Items) != len(p.tasks) {
		a.Answer, a.Error = unknown, fmt.Sprintf("%d tasks sent, %d acknowledged", len(p.tasks), len(answer.Items))
		c.arena.note(fmt.Errorf("enqueue at %s: %s", a.Replica, a.Error))
	}
	for i, t := range p.tasks {
		line := a
		line.Key = t.IdempotencyKey
		if a.Answer == ok {
			line.TaskIDs = []string{answer.Items[i].ID}
			c.arena.acknowledged.Store(int64(c.acked.add(answer.Items[i].ID, t)))
		}
		c.caller.write(line)
	}
	return a.Answer != unknown
}

// Acknowledged is how many tasks the replicas have acknowledged to clients.
func (a *Arena) Acknowledged() int { return int(a.acknowledged.Load()) }

// Unanswered reports whether clients have asked for something of a kind that has never worked.
func (a *Arena) Unanswered() bool {
	for _, worked := range a.asked.Range {
		if !worked.(bool) {
			return true
		}
	}
	return false
}

// acked are the acknowledged tasks: all, the latest, and those that take long.
type acked struct {
	mu         sync.Mutex
	all        map[string]bool
	ids, later []string
}

// add returns how many there are now.
func (a *acked) add(id string, t newTask) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.all == nil {
		a.all = map[string]bool{}
	}
	a.all[id] = true
	a.ids = append(a.ids, id)
	a.ids = a.ids[max(0, len(a.ids)-40):]
	if takes, _ := time.ParseDuration(t.Payload.Takes); takes >= time.Second || t.RunAt != "" {
		a.later = append(a.later, id)
		a.later = a.later[max(0, len(a.later)-3):]
	}
	return len(a.all)
}

// pick is one of them, more often a recent one; empty: there are none.
func (a *acked) pick(r *rand.Rand) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	from := a.ids
	if r.IntN(4) > 0 {
		from = a.later
	}
	if len(from) == 0 {
		return ""
	}
	return from[r.IntN(len(from))]
}
