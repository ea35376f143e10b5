package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/client"
)

func newReloadCommand(a *app) *cobra.Command {
	var activate bool
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "Make a replica load its configuration again",
		Long: `Make the replica at --server load its configuration again, and show what has changed: jobs, pools, limits, handlers, notifications and
tokens. The whole of it is checked, tokens and certificate first. If something is wrong nothing changes, and all errors are shown by file and
line. What runs ends as it began; retries and later runs use the new definition. Nothing fires for times that have passed. Pending tasks of removed jobs are
cancelled, those of removed pools wait. What needs a restart is named.

Each replica loads its own file: do this for each, or let them watch their files (watch: true, the default).

A configuration that was loaded before has the number that it had then. If another replica has a newer one, that governs what differs;
--activate makes this one the newest. The role admin is needed.`,
		Example: "  scheduler reload\n  scheduler reload --server http://10.0.0.2:8080 --activate",
	}
	cmd.Flags().BoolVar(&activate, "activate", false, "make it the newest configuration, also if it was loaded before")
	cmd.RunE = a.call(func(ctx context.Context, c *client.Client, _ []string) error {
		if err := a.asksReplica(cmd); err != nil {
			return err
		}
		out, err := c.Reload(ctx, activate)
		if err != nil {
			return err
		}
		return a.print(out, func(w io.Writer) error { return showReloaded(w, out) })
	})
	return cmd
}

// showReloaded shows names, few of each kind.
func showReloaded(w io.Writer, out wire.Reloaded) error {
	var text strings.Builder
	fmt.Fprintf(&text, "replica %s has configuration %d (%s)\n", out.Replica, out.Config, out.ConfigHash[:min(12, len(out.ConfigHash))])
	for _, of := range []struct {
		what    string
		changed wire.Changed
	}{{"jobs", out.Jobs}, {"pools", out.Pools}} {
		for _, c := range []struct {
			how   string
			names []string
		}{{"added", of.changed.Added}, {"changed", of.changed.Changed}, {"removed", of.changed.Removed}} {
			if len(c.names) > 0 {
				fmt.Fprintf(&text, "%s %s: %s\n", of.what, c.how, someNames(c.names))
			}
		}
	}
	if out.Jobs.None() && out.Pools.None() {
		text.WriteString("no job and no pool has changed\n")
	}
	if len(out.Restart) > 0 {
		fmt.Fprintf(&text, "changed, and as before until a restart: %s\n", strings.Join(out.Restart, ", "))
	}
	if out.Newer != "" {
		fmt.Fprintf(&text, "%s governs what differs, as it is newer; 'scheduler reload --activate' makes this one the newest\n", out.Newer)
	}
	if out.Pending != "" {
		fmt.Fprintf(&text, "the store has not taken all of it yet, and will: %s\n", out.Pending)
	}
	_, err := io.WriteString(w, text.String())
	return err
}

func someNames(names []string) string {
	const few = 20
	if n := len(names) - few; n > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:few], ", "), n)
	}
	return strings.Join(names, ", ")
}
