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
var completions = map[string]func(context.Context, *client.Client) []string{
	"JOB":  names((*client.Client).Jobs, func(j wire.Job) string { return j.Name }),
	"POOL": names((*client.Client).Pools, func(p wire.Pool) string { return p.Name }),
}

// names lists the first completeMost names; none if the replica does not answer.
func names[T any](fetch func(*client.Client, context.Context, wire.Page) (wire.List[T], error), name func(T) string) func(context.Context, *client.Client) []string {
	return func(ctx context.Context, c *client.Client) (all []string) {
		list, _ := fetch(c, ctx, wire.Page{Limit: completeMost})
		for _, item := range list.Items {
			all = append(all, name(item))
		}
		return all
	}
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
	list := completions[words[1]]
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		c, err := a.remote()
		if err != nil || len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completeWithin)
		defer cancel()
		return slices.DeleteFunc(list(ctx, c), func(name string) bool { return !strings.HasPrefix(name, begun) }), cobra.ShellCompDirectiveNoFileComp
	}
}
