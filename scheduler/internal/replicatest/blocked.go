package replicatest

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// Blocked is a handler that runs until end is closed.
type Blocked struct{ Began, End chan struct{} }

// Run tells its beginning, and waits.
func (b Blocked) Run(ctx context.Context, _ jobs.Task, _ io.Writer) error {
	b.Began <- struct{}{}
	<-b.End
	return nil
}

// Describe makes all of them one definition.
func (Blocked) Describe() string { return "blocked" }

// Function is a handler.
type Function func(context.Context, jobs.Task, io.Writer) error

// Run calls the function.
func (f Function) Run(ctx context.Context, t jobs.Task, out io.Writer) error { return f(ctx, t, out) }

// Identity is the same for all of them.
func (Function) Identity() string { return "function" }

// Counting is a handler that counts its runs.
type Counting struct {
	mu   sync.Mutex
	runs int
}

// Run counts.
func (c *Counting) Run(context.Context, jobs.Task, io.Writer) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runs++
	return nil
}

// Describe makes all of them one definition.
func (c *Counting) Describe() string { return "counting" }

// Count is how many runs there were.
func (c *Counting) Count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.runs
}

// Starts is a handler that notes when each task started.
type Starts struct {
	mu sync.Mutex
	At map[string]time.Time
}

// Run notes the time.
func (s *Starts) Run(_ context.Context, t jobs.Task, _ io.Writer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.At[t.ID] = time.Now()
	return nil
}

// Started counts those of ids that have started, and returns when the last one did.
func (s *Starts) Started(ids []string) (n int, last time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		if at, ok := s.At[id]; ok {
			n++
			if at.After(last) {
				last = at
			}
		}
	}
	return n, last
}

// NewBlocked has room for the beginnings of n runs.
func NewBlocked(n int) Blocked { return Blocked{make(chan struct{}, n), make(chan struct{})} }
