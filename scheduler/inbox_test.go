package scheduler

import (
	"context"
	"encoding/json"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// inbox is a handler of notifications that keeps what says makes of them, and when each happened.
type inbox struct {
	says func(n jobs.Notification) (string, error)

	mu   sync.Mutex
	told []string
	at   []time.Time
}

func (b *inbox) Run(_ context.Context, t jobs.Task, _ io.Writer) error {
	var n jobs.Notification
	if err := json.Unmarshal(t.Payload, &n); err != nil {
		return err
	}
	text, err := b.says(n)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.told, b.at = append(b.told, text), append(b.at, n.At)
	return nil
}

func (b *inbox) Describe() string { return "inbox" }

func (b *inbox) all() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Sorted(slices.Values(b.told))
}
