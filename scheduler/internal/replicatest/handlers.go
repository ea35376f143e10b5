package replicatest

import (
	"context"
	"io"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// Nothing is a handler that does nothing.
type Nothing struct{}

// Run does nothing.
func (Nothing) Run(context.Context, jobs.Task, io.Writer) error { return nil }

// Named is a handler that does nothing, with an identity of its own.
type Named string

// Run does nothing.
func (Named) Run(context.Context, jobs.Task, io.Writer) error { return nil }

// Identity is the name.
func (n Named) Identity() string { return string(n) }

// Time is a time of 1 March 2026, such as "12:00:05".
func Time(s string) time.Time {
	t, err := time.Parse("2006-01-02 15:04:05", "2026-03-01 "+s)
	if err != nil {
		panic(err)
	}
	return t
}
