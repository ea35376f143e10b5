package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/robfig/cron/v3"
)

// fires are how late jobs were called, in seconds after the second in which they were due.
type fires struct {
	mu   sync.Mutex
	late []float64
}

func (f *fires) add() {
	now := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.late = append(f.late, now.Sub(now.Truncate(time.Second)).Seconds())
}

// spread measures n jobs in memory that are due once a minute, as many in each second: how late they are called, and what that takes.
func spread(ctx context.Context, name string, n int, lasts time.Duration) (map[string]any, error) {
	f := &fires{}
	spec := func(i int) string { return fmt.Sprintf("%d * * * * *", i%60) }
	switch name {
	case "robfig":
		c := cron.New(cron.WithSeconds())
		for i := range n {
			if _, err := c.AddFunc(spec(i), f.add); err != nil {
				return nil, err
			}
		}
		c.Start()
		defer c.Stop()
	case "gocron":
		s, err := gocron.NewScheduler()
		if err != nil {
			return nil, err
		}
		for i := range n {
			if _, err := s.NewJob(gocron.CronJob(spec(i), true), gocron.NewTask(f.add)); err != nil {
				return nil, err
			}
		}
		s.Start()
		defer func() { _ = s.Shutdown() }() // the process ends
	default:
		return nil, fmt.Errorf("-queue %q: robfig or gocron", name)
	}
	if err := sleep(ctx, 3*time.Second); err != nil {
		return nil, err
	}
	f.mu.Lock()
	f.late = nil
	f.mu.Unlock()
	before := processor()
	if err := sleep(ctx, lasts); err != nil {
		return nil, err
	}
	used := processor() - before
	f.mu.Lock()
	defer f.mu.Unlock()
	slices.Sort(f.late)
	return map[string]any{"late": slices.Clone(f.late), "processor": used.Seconds() / lasts.Seconds()}, nil
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
