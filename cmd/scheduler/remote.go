package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockstep-scheduler/lockstep/client"
)

// call makes a command of what do asks of the replica that --server names.
func (a *app) call(do func(ctx context.Context, c *client.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := a.remote()
		if err != nil {
			return err
		}
		return a.explain(do(cmd.Context(), c, args))
	}
}

// remote returns a client of the replica that --server names, with the token of LOCKSTEP_API_TOKEN
// or of the file LOCKSTEP_API_TOKEN_FILE.
func (a *app) remote() (*client.Client, error) {
	token, _ := a.env("LOCKSTEP_API_TOKEN")
	if file, ok := a.env("LOCKSTEP_API_TOKEN_FILE"); ok && file != "" && token == "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, usagef("LOCKSTEP_API_TOKEN_FILE: %w", err)
		}
		token = strings.TrimSpace(string(text))
	}
	c, err := client.New(a.server(), client.Options{Token: token})
	if err != nil {
		return nil, usagef("--server: %w", err)
	}
	return c, nil
}

// explain says what to do where no replica answers.
func (a *app) explain(err error) error {
	if errors.Is(err, client.ErrUnreachable) {
		return fmt.Errorf("%w\nStart a replica with 'scheduler serve', or name a running one with --server URL or LOCKSTEP_SERVER", err)
	}
	return err
}

// everything is the limit of lists that are shown whole.
const everything = 0

// collect follows a list from page to page, up to limit rows. more says that there are further ones.
func collect[T any](limit int, fetch func(client.Page) (client.List[T], error)) (rows []T, more bool, err error) {
	rows = []T{}
	var p client.Page
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

// noteMore tells people that a list was cut.
func (a *app) noteMore(more bool, limit int) {
	if more {
		fmt.Fprintf(a.stderr, "These are the latest %d; there are more: --limit.\n", limit)
	}
}

// limitFlag adds --limit to a command that lists what may be long.
func limitFlag(cmd *cobra.Command, limit *int) {
	cmd.Flags().IntVar(limit, "limit", 50, "show the latest `N`; 0 shows all")
	inner := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *limit < 0 {
			return usagef("--limit %d: must be 0 or more", *limit)
		}
		return inner(cmd, args)
	}
}

func group(use, short string, subs ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short}
	cmd.AddCommand(subs...)
	return cmd
}
