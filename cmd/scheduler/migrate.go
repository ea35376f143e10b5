package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-scheduler/lockstep/config"
	"github.com/lockstep-scheduler/lockstep/internal/mysqlconn"
	"github.com/lockstep-scheduler/lockstep/store"
)

func newMigrateCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Make or update the tables of the store",
		Long: "Make or update the tables of the store that the file names. With store.migrate: auto, serve does it at start;\n" +
			"with manual, it does not start before \"migrate up\" was run.",
	}
	cmd.AddCommand(
		&cobra.Command{
			Use:   "up",
			Short: "Bring the tables to this program's version",
			RunE: func(cmd *cobra.Command, _ []string) error {
				return a.withStore(cmd.Context(), func(ctx context.Context, s *store.Store) error {
					if err := s.Migrate(ctx); err != nil {
						return err
					}
					return a.migrations(ctx, s)
				})
			},
		},
		&cobra.Command{
			Use:   "status",
			Short: "Show which steps were applied",
			RunE: func(cmd *cobra.Command, _ []string) error {
				return a.withStore(cmd.Context(), a.migrations)
			},
		},
		&cobra.Command{
			Use:   "sql",
			Short: "Print the SQL of all steps, for those who apply it with a tool of their own",
			RunE: func(*cobra.Command, []string) error {
				c, err := a.loadConfig()
				if err != nil {
					return err
				}
				sql, err := store.MigrationSQL(store.Dialect(c.Store.Driver), c.Store.TablePrefix)
				if err != nil {
					return err
				}
				_, err = io.WriteString(a.exact, sql)
				return err
			},
		},
	)
	return cmd
}

// openStore opens the store that a file names.
func openStore(ctx context.Context, c config.Store) (*store.Store, error) {
	s, err := store.Open(ctx, store.Dialect(c.Driver), c.DSN, store.Options{Prefix: c.TablePrefix, TLS: c.TLS})
	if err != nil && c.Driver == config.MySQL {
		if d, bad := mysqlconn.Parse(c.DSN); bad == nil && d.Net == "tcp" {
			if answers := speaks(context.WithoutCancel(ctx), d.Addr); len(answers) > 0 && !slices.Contains(answers, speaksMySQL) {
				return nil, fmt.Errorf("store.dsn: %s answers at %s, not %s; correct the address: %w", answers[0], d.Addr, speaksMySQL, err)
			}
		}
	}
	return s, err
}

// withStore opens the store of the file for f.
func (a *app) withStore(ctx context.Context, f func(context.Context, *store.Store) error) (err error) {
	c, err := a.loadConfig()
	if err != nil {
		return err
	}
	s, err := openStore(ctx, c.Store)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return f(ctx, s)
}

type migration struct {
	Version   int    `json:"version"`
	Name      string `json:"name"`
	AppliedAt string `json:"applied_at,omitempty"` // RFC 3339; absent: pending
	Newer     bool   `json:"newer,omitempty"`      // applied by a newer program
}

// migrations prints the steps and where they stand.
func (a *app) migrations(ctx context.Context, s *store.Store) error {
	steps, err := s.Sides().Admin.MigrationStatus(ctx)
	if err != nil {
		return err
	}
	all := make([]migration, len(steps))
	for i, step := range steps {
		all[i] = migration{Version: step.Version, Name: step.Name, Newer: step.Unknown}
		if !step.AppliedAt.IsZero() {
			all[i].AppliedAt = step.AppliedAt.UTC().Format(time.RFC3339)
		}
	}
	return a.print(all, func(w io.Writer) error {
		rows := make([][]string, len(all))
		for i, m := range all {
			applied := m.AppliedAt
			switch {
			case applied == "":
				applied = "pending"
			case m.Newer:
				applied += " (by a newer program)"
			}
			rows[i] = []string{fmt.Sprintf("%04d", m.Version), m.Name, applied}
		}
		return table(w, "VERSION NAME APPLIED", rows)
	})
}
