package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/migrations"
)

// ErrSchema means that the tables are missing, too old for this program, or too new. The message says what
// to do.
var ErrSchema = errors.New("database schema does not fit this program")

// migrateTimeout bounds Migrate where the context does not.
const migrateTimeout = time.Minute

// migrationsTable comes before all numbered files.
const migrationsTable = `
	CREATE TABLE IF NOT EXISTS {migrations} (
	  version        INTEGER      NOT NULL PRIMARY KEY,
	  name           VARCHAR(255) NOT NULL,
	  min_compatible INTEGER      NOT NULL,
	  applied_at     BIGINT       NOT NULL
	)`

// Migrate brings the schema to this program's version. Any number of replicas may call it at once:
// one does the work and the others wait. A newer schema that allows this program stays as it is.
//
// ErrSchema, and nothing is changed: a newer schema does not allow this program; a live replica (its session was renewed
// within its ttl) runs a program that could not use the new schema; a table or view of something else has the name of one that
// Migrate would create.
func (s *Store) Migrate(ctx context.Context) error {
	if err := s.CheckSchema(ctx); err == nil {
		return nil // without waiting for the lock
	}
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, migrateTimeout)
		defer cancel()
	}
	steps, err := s.steps()
	if err != nil {
		return err
	}
	return s.alone(ctx, func(t *tx) error {
		if err := t.namesAreFree(steps); err != nil {
			return err
		}
		if _, err := t.Exec(migrationsTable); err != nil {
			return err
		}
		applied, newest, err := t.applied()
		if err != nil {
			return err
		}
		if err := newest.allows(len(steps)); err != nil {
			return err
		}
		if err := t.refuseBeside(steps, newest); err != nil {
			return err
		}
		for _, step := range steps {
			if applied[step.Version] != nil {
				continue
			}
			if err := t.apply(step); err != nil {
				return fmt.Errorf("migration %04d_%s: %w", step.Version, step.Name, err)
			}
		}
		return t.learnNamespace()
	})
}

func (s *Store) steps() ([]migrations.Migration, error) {
	if s.db == nil {
		return nil, &opError{"schema", errNotMade}
	}
	return migrations.For(s.db.Dialect.Name())
}

// alone runs fn while no other process changes the schema.
func (s *Store) alone(ctx context.Context, fn func(t *tx) error) error {
	return s.do("migrate", func() error { return s.db.Dialect.Alone(ctx, s.db, "lockstep.migrate", s.of(fn)) })
}

// namesAreFree refuses tables of something else. Where the table of migrations exists, the others may exist, too: MySQL keeps what
// an interrupted migration has created.
func (t *tx) namesAreFree(steps []migrations.Migration) error {
	if began, err := t.hasMigrations(); err != nil || began {
		return err
	}
	for _, step := range steps {
		for _, name := range step.Tables(t.DB.Prefix) {
			if taken, err := t.DB.Dialect.HasTable(t.Tx, name); err != nil {
				return err
			} else if taken {
				return fmt.Errorf("%w: there is a table %s already, which Lockstep did not create: set store.table_prefix (Options.Prefix) to another prefix, or rename that table", ErrSchema, name)
			}
		}
	}
	return nil
}

func (t *tx) apply(step migrations.Migration) error {
	for _, statement := range step.Statements(t.DB.Prefix) {
		if _, err := t.Exec(statement); err != nil && t.DB.Dialect.Answer(err) != sqlkit.AnswerHasColumn { // it runs a second time
			return err
		}
	}
	now, err := t.Now()
	if err != nil {
		return err
	}
	_, err = t.InsertNew(`{migrations} (version, name, min_compatible, applied_at)`, [][]any{{step.Version, step.Name, step.MinCompatible, micros(now)}})
	return err
}

// CheckSchema is nil when the tables fit this program, and ErrSchema when they do not.
func (s *Store) CheckSchema(ctx context.Context) error {
	steps, err := s.steps()
	if err != nil {
		return err
	}
	return s.read(ctx, "check schema", func(t *tx) error {
		applied, newest, err := t.applied()
		if err != nil {
			return err
		}
		if err := newest.allows(len(steps)); err != nil {
			return err
		}
		if len(applied) == 0 {
			return fmt.Errorf("%w: there are no tables with prefix %s: run \"scheduler migrate up\", set store.migrate: auto, or call Migrate", ErrSchema, s.db.Prefix)
		}
		for _, step := range steps {
			if applied[step.Version] == nil {
				return fmt.Errorf("%w: migration %04d_%s is missing: run \"scheduler migrate up\", set store.migrate: auto, or call Migrate", ErrSchema, step.Version, step.Name)
			}
		}
		return t.learnNamespace()
	})
}

// MigrationStatus lists the steps of this program, and those that a newer one applied.
func (s admin) MigrationStatus(ctx context.Context) ([]ledger.Migration, error) {
	steps, err := s.steps()
	if err != nil {
		return nil, err
	}
	return get(ctx, s.read, "migration status", func(t *tx) (all []ledger.Migration, _ error) {
		applied, newest, err := t.applied()
		if err != nil {
			return nil, err
		}
		for _, step := range steps {
			all = append(all, *cmp.Or(applied[step.Version], &ledger.Migration{Version: step.Version, Name: step.Name}))
		}
		for version := len(steps) + 1; version <= newest.version; version++ {
			if m := applied[version]; m != nil {
				m.Unknown = true
				all = append(all, *m)
			}
		}
		return all, nil
	})
}

// MigrationSQL is all that Migrate does to an empty database, to be applied with another tool. An empty prefix means the
// default.
func MigrationSQL(d Dialect, prefix string) (string, error) {
	prefix, err := tablePrefix(prefix)
	if err != nil {
		return "", err
	}
	steps, err := migrations.For(d)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	table := strings.ReplaceAll(migrationsTable, "{migrations}", prefix+"migrations")
	fmt.Fprintf(&b, "%s;\n", strings.TrimSpace(strings.ReplaceAll(table, "\n\t", "\n")))
	for _, step := range steps {
		fmt.Fprintf(&b, "\n-- %04d_%s\n", step.Version, step.Name)
		for _, statement := range step.Statements(prefix) {
			fmt.Fprintf(&b, "%s;\n", statement)
		}
		fmt.Fprintf(&b, "INSERT INTO %smigrations (version, name, min_compatible, applied_at) VALUES (%d, '%s', %d, %d);\n",
			prefix, step.Version, step.Name, step.MinCompatible, 1)
	}
	return b.String(), nil
}

// newestSchema is the schema's version and the least one that a program must have.
type newestSchema struct{ version, least int }

func (n newestSchema) allows(known int) error {
	if n.least > known {
		return fmt.Errorf("%w: it is at version %d and needs a program that knows version %d; this one knows %d: use a newer one", ErrSchema, n.version, n.least, known)
	}
	return nil
}

// hasMigrations reports whether anything was applied.
func (t *tx) hasMigrations() (bool, error) {
	return t.DB.Dialect.HasTable(t.Tx, t.DB.Prefix+"migrations")
}

// applied reads what was applied; nothing if there are no tables yet.
func (t *tx) applied() (map[int]*ledger.Migration, newestSchema, error) {
	var newest newestSchema
	if exists, err := t.hasMigrations(); err != nil || !exists {
		return nil, newest, err
	}
	applied := map[int]*ledger.Migration{}
	err := each(t.rows(`SELECT version, name, min_compatible, applied_at FROM {migrations} ORDER BY version`), func(m *struct {
		Version, MinCompatible int
		Name                   string
		AppliedAt              int64
	}) {
		applied[m.Version] = &ledger.Migration{Version: m.Version, Name: m.Name, AppliedAt: fromMicros(m.AppliedAt)}
		newest = newestSchema{m.Version, max(newest.least, m.MinCompatible)}
	})
	return applied, newest, err
}

// Namespace is the id of this store, which the first migration minted. A copy of the database has it, too.
func (s *Store) Namespace(ctx context.Context) (string, error) {
	return get(ctx, s.read, "namespace", func(t *tx) (string, error) {
		id, err := t.ownNamespace()
		if err == nil {
			s.namespace.Store(&id)
		}
		return id, err
	})
}

func (t *tx) ownNamespace() (id string, err error) {
	found, err := t.One(`SELECT value FROM {meta} WHERE name = ?`, []any{"namespace"}, &id)
	if err == nil && !found {
		err = fmt.Errorf("%w: no namespace in its meta table", ErrSchema)
	}
	return id, err
}

// learnNamespace keeps the namespace in memory, if there are tables yet: EnqueueTx compares it. The key of definitions is read anew when it is used.
func (t *tx) learnNamespace() error {
	t.s.key.Store(nil)
	id, err := t.ownNamespace()
	switch {
	case err == nil:
		t.s.namespace.Store(&id)
	case t.DB.Dialect.Answer(err) == sqlkit.AnswerNoTable || errors.Is(err, ErrSchema):
		return nil
	}
	return err
}
