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
	cmd := group("migrate", "Create or update the tables of the store",
		&cobra.Command{
			Use:   "up",
			Short: "Update the tables to this program's version",
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
			Short: "Show which migrations are applied",
			RunE: func(cmd *cobra.Command, _ []string) error {
				return a.withStore(cmd.Context(), a.migrations)
			},
		},
		&cobra.Command{
			Use:   "sql",
			Short: "Print the SQL of all migrations, to apply with another tool",
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
	cmd.Long = "Create or update the tables of the store that the configuration names. With store.migrate: auto, serve does it at\n" +
		"start; with manual, serve refuses to start until \"migrate up\" was run."
	return cmd
}

// openStore opens the store. If that fails, and another kind of server answers at its address, the error says so.
func openStore(ctx context.Context, c config.Store) (*store.Store, error) {
	s, err := store.Open(ctx, store.Dialect(c.Driver), c.DSN, store.Options{Prefix: c.TablePrefix, TLS: c.TLS})
	if err != nil && c.Driver == config.MySQL {
		if d, bad := mysqlconn.Parse(c.DSN); bad == nil && d.Net == "tcp" {
			if answers := probe(context.WithoutCancel(ctx), d.Addr, probeTimeout); len(answers) > 0 && !slices.Contains(answers, isMySQL) {
				return nil, wrongServer{fmt.Errorf("store.dsn: %s answers at %s, not %s; correct the address: %w", answers[0], d.Addr, isMySQL, err)}
			}
		}
	}
	return s, err
}

// withStore calls f with the store of the configuration.
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
	Version   int       `json:"version"`
	Name      string    `json:"name"`
	AppliedAt time.Time `json:"applied_at,omitzero"` // in seconds; absent: pending
	Newer     bool      `json:"newer,omitempty"`     // applied by a newer program
}

// migrations prints each migration with the time at which it was applied.
func (a *app) migrations(ctx context.Context, s *store.Store) error {
	steps, err := s.Sides().Admin.MigrationStatus(ctx)
	if err != nil {
		return err
	}
	all := make([]migration, len(steps))
	for i, step := range steps {
		all[i] = migration{step.Version, step.Name, step.AppliedAt.UTC().Truncate(time.Second), step.Unknown}
	}
	return a.print(all, func(w io.Writer) error {
		return table(w, "VERSION NAME APPLIED", all, func(m migration) []string {
			applied := m.AppliedAt.Format(time.RFC3339)
			switch {
			case m.AppliedAt.IsZero():
				applied = "pending"
			case m.Newer:
				applied += " (by a newer program)"
			}
			return []string{fmt.Sprintf("%04d", m.Version), m.Name, applied}
		})
	})
}
