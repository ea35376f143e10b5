package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/client"
)

const (
	completeWithin = 2 * time.Second // the shell waits
	completeMost   = 500             // names
)

// completions lists the names for an argument of a command's Use line.
var completions = map[string]func(ctx context.Context, c *client.Client, p wire.Page) ([]string, error){
	"JOB": func(ctx context.Context, c *client.Client, p wire.Page) (names []string, err error) {
		list, err := c.Jobs(ctx, p)
		for _, j := range list.Items {
			names = append(names, j.Name)
		}
		return names, err
	},
	"POOL": func(ctx context.Context, c *client.Client, p wire.Page) (names []string, err error) {
		list, err := c.Pools(ctx, p)
		for _, pool := range list.Items {
			names = append(names, pool.Name)
		}
		return names, err
	},
}

// complete adds shell completion of job and pool names to cmd and its subcommands: the first completeMost of the
// replica at --server, none if it does not answer.
func (a *app) complete(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		a.complete(sub)
	}
	words := strings.Fields(cmd.Use)
	if len(words) != 2 || completions[words[1]] == nil {
		return
	}
	names := completions[words[1]]
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		c, err := a.remote()
		if err != nil || len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completeWithin)
		defer cancel()
		all, _ := names(ctx, c, wire.Page{Limit: completeMost})
		return slices.DeleteFunc(all, func(name string) bool { return !strings.HasPrefix(name, begun) }), cobra.ShellCompDirectiveNoFileComp
	}
}
