package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/client"
)

func newTasksWhyCommand(a *app) *cobra.Command {
	cmd := newOneCommand(a, "why TASK", "Say why a task waits, where it runs, or how it ended", (*client.Client).Why, a.showWhy)
	cmd.Long = "Say why a task is in its state. Of a pending task: all that holds it up, the one first that has to be removed first, and when\n" +
		"it is expected to start. Of a running one: where it runs, and when that replica was last heard of. Of an ended one: how it ended.\n" +
		"The codes are for programs, and do not change; the sentences may."
	return cmd
}

func (a *app) showWhy(w io.Writer, y wire.Why) error {
	err := fields(w,
		field{"task", y.TaskID},
		field{"pool", y.Pool},
		field{"kind", y.Kind},
		field{"key", y.Key},
		field{"job", y.Job},
		field{"state", string(y.State)},
		field{"expires at", a.when(y.ExpiresAt)},
		field{"read at", y.At.UTC().Format(time.RFC3339)},
		field{"starts", a.startText(y.Start)},
	)
	if err != nil {
		return err
	}
	fmt.Fprintln(w)
	return table(w, "CODE WHY", y.Causes, func(c wire.Cause) []string {
		return []string{string(c.Code), c.Message}
	})
}

// startText is when a task is expected to start; "" for one that has.
func (a *app) startText(s *wire.Start) string {
	if s == nil {
		return ""
	}
	if s.At.IsZero() {
		return "unknown: " + s.Unknown
	}
	earliest := ""
	if s.NotBefore {
		earliest = "not before "
	}
	return earliest + a.when(s.At) + ", estimated: " + s.Basis
}
