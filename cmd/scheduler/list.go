package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/client"
)

// listing is a command that fetches a list page by page, and shows one row per item.
type listing[T any] struct {
	short   string
	more    string // after short, in the help
	heading string // one word per column
	fetch   func(*client.Client, context.Context, wire.Page) (wire.List[T], error)
	row     func(T) []string
	latest  bool // long: cut at --limit
}

func newListCommand[T any](a *app, l listing[T]) *cobra.Command {
	limit := everything
	cmd := &cobra.Command{
		Use:   "list",
		Short: l.short,
		Long:  l.short + l.more,
		RunE: a.call(func(ctx context.Context, c *client.Client, _ []string) error {
			if limit < 0 {
				return usagef("--limit %d: must be 0 or more", limit)
			}
			rows, more, err := collect(limit, func(p wire.Page) (wire.List[T], error) { return l.fetch(c, ctx, p) })
			if err != nil {
				return err
			}
			if more {
				fmt.Fprintf(a.stderr, "Only the latest %d are shown; see --limit.\n", limit)
			}
			return a.print(rows, func(w io.Writer) error { return table(w, l.heading, rows, l.row) })
		}),
	}
	if l.latest {
		cmd.Flags().IntVar(&limit, "limit", 50, "show the latest `N`; 0 shows all")
	}
	return cmd
}

// everything is the limit of unbounded lists.
const everything = 0

// collect fetches pages up to limit rows. more reports that there are further ones.
func collect[T any](limit int, fetch func(wire.Page) (wire.List[T], error)) (rows []T, more bool, err error) {
	rows = []T{}
	var p wire.Page
	for {
		p.Limit = 500
		if limit != everything {
			p.Limit = min(limit-len(rows), 500)
		}
		list, err := fetch(p)
		if err != nil {
			return nil, false, err
		}
		rows = append(rows, list.Items...)
		if list.Next == "" || limit != everything && len(rows) >= limit {
			return rows, list.Next != "", nil
		}
		p.Cursor = list.Next
	}
}

// request fetches or changes one thing by its name or id.
type request[T any] = func(*client.Client, context.Context, string) (T, error)

// newOneCommand sends a request, and shows its answer.
func newOneCommand[T any](a *app, use, short string, ask request[T], show func(io.Writer, T) error) *cobra.Command {
	return &cobra.Command{
		Use:   use,
		Short: short,
		RunE: a.call(func(ctx context.Context, c *client.Client, args []string) error {
			answer, err := ask(c, ctx, args[0])
			if err != nil {
				return err
			}
			return a.print(answer, func(w io.Writer) error { return show(w, answer) })
		}),
	}
}

// setting is a command that overrides the configuration of one job or pool, or removes the override.
type setting[T any] struct {
	use, short, long string
	set, reset       request[T]
	message          func(T) string // the new state
}

func newOverrideCommand[T any](a *app, s setting[T]) *cobra.Command {
	var reset bool
	cmd := newOneCommand(a, s.use, s.short, func(c *client.Client, ctx context.Context, name string) (T, error) {
		if reset {
			return s.reset(c, ctx, name)
		}
		return s.set(c, ctx, name)
	}, func(w io.Writer, thing T) error { return textLine(s.message(thing))(w) })
	cmd.Long = s.short + s.long
	cmd.Flags().BoolVar(&reset, "reset", false, "remove the override: the configuration applies again")
	return cmd
}
