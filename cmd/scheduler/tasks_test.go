package main

import (
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/internal/clip"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// How a task ended is said once: of one that was replaced the error begins with the reason, and of one that is not retried the reason with the error.
func TestEnding(t *testing.T) {
	for want, task := range map[string]jobs.Task{
		"task t: succeeded":                              {State: jobs.StateSucceeded},
		"task t: failed: exit code 2: no space":          {State: jobs.StateFailed, Error: "exit code 2: no space"},
		"task t: cancelled, replaced by the run of noon": {State: jobs.StateCancelled, Reason: "replaced by the run of noon"},
		"task t: cancelled, replaced by the run of noon: ended by a signal": {
			State: jobs.StateCancelled, Reason: "replaced by the run of noon", Error: "replaced by the run of noon: ended by a signal",
		},
		"task t: failed, exit code 2: no space; exit code 2 is not among what is retried: 75": {
			State: jobs.StateFailed, Reason: "exit code 2: no space; exit code 2 is not among what is retried: 75", Error: "exit code 2: no space",
		},
		"task t: failed, timeout after 1s: ended by a signal": {State: jobs.StateFailed, Reason: "timeout after 1s", Error: "ended by a signal"},
	} {
		task.ID = "t"
		if got := ending(task); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A list has the first line of the error where a task has ended without a reason; an attempt that is followed by another one leaves none.
func TestReasonInAList(t *testing.T) {
	for want, task := range map[string]jobs.Task{
		"exit code 2: no space":                  {State: jobs.StateFailed, Error: " exit code 2: no space \nmore"},
		clip.Text(strings.Repeat("x", 600), 512): {State: jobs.StateFailed, Error: strings.Repeat("x", 600)},
		"timeout after 1s":                       {State: jobs.StateFailed, Reason: "timeout after 1s", Error: "ended by a signal"},
		"":                                       {State: jobs.StatePending, Attempt: 1, Error: "exit code 2"},
	} {
		if got := reasonOf(task); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
