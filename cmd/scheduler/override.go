package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/lockstep-scheduler/lockstep/client"
)

// setting is a command that overrides the configuration of one job or pool, or removes the override.
type setting[T any] struct {
	use, short, long string
	set, reset       func(*client.Client, context.Context, string) (T, error)
	message          func(T) string // the new state
}

func newOverrideCommand[T any](a *app, s setting[T]) *cobra.Command {
	var reset bool
	cmd := &cobra.Command{
		Use:   s.use,
		Short: s.short,
		Long:  s.short + s.long,
		RunE: a.call(func(ctx context.Context, c *client.Client, args []string) error {
			set := s.set
			if reset {
				set = s.reset
			}
			thing, err := set(c, ctx, args[0])
			if err != nil {
				return err
			}
			return a.print(thing, func(w io.Writer) error {
				_, err := fmt.Fprintln(w, s.message(thing))
				return err
			})
		}),
	}
	cmd.Flags().BoolVar(&reset, "reset", false, "remove the override: the configuration applies again")
	return cmd
}
