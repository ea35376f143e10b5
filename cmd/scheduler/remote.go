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

func group(use, short string, subs ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short}
	cmd.AddCommand(subs...)
	return cmd
}
