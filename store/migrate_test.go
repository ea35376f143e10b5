package store_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/migrations"
	"github.com/lockstep-scheduler/lockstep/store"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// eachDialect runs fn with an empty database of each.
func eachDialect(t *testing.T, fn func(t *testing.T, d store.Dialect, dsn string)) {
	t.Run("sqlite", func(t *testing.T) { fn(t, store.SQLite, filepath.Join(t.TempDir(), "a b%#ü.db")) })
	t.Run("mysql", func(t *testing.T) { fn(t, store.MySQL, servers.MySQL(t)) })
}

func open(t *testing.T, d store.Dialect, dsn string, o store.Options) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), d, dsn, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestMigrateByEightReplicas(t *testing.T) {
	eachDialect(t, func(t *testing.T, d store.Dialect, dsn string) {
		g, ctx := errgroup.WithContext(t.Context())
		var namespaces [8]string
		for i := range namespaces {
			g.Go(func() error {
				s, err := store.Open(ctx, d, dsn, store.Options{})
				if err != nil {
					return err
				}
				defer s.Close()
				if err := s.Migrate(ctx); err != nil {
					return err
				}
				namespaces[i], err = s.Namespace(ctx)
				return err
			})
		}
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
		if len(slices.Compact(namespaces[:])) != 1 || len(namespaces[0]) != 16 {
			t.Fatalf("namespaces %q", namespaces)
		}
	})
}

func TestSchemaStates(t *testing.T) {
	eachDialect(t, func(t *testing.T, d store.Dialect, dsn string) {
		if d == store.MySQL { // what another database of the server has is not in this one
			if err := open(t, d, servers.MySQL(t), store.Options{Prefix: "x_"}).Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		s := open(t, d, dsn, store.Options{Prefix: "x_"})
		raw := openRaw(t, d, dsn)
		refuses := func(want string, check func(context.Context) error) {
			t.Helper()
			err := check(t.Context())
			if !errors.Is(err, store.ErrSchema) || !strings.Contains(err.Error(), want) {
				t.Fatalf("got %v, want ErrSchema with %q", err, want)
			}
		}
		exec := func(text string) {
			t.Helper()
			if _, err := raw.ExecContext(t.Context(), text); err != nil {
				t.Fatal(err)
			}
		}
		refuses("there are no tables with prefix x_: run \"scheduler migrate up\"", s.CheckSchema)
		refuses("call Migrate first", func(ctx context.Context) error {
			_, err := s.Enqueue(ctx, jobs.NewTask{Pool: "p"})
			return err
		})
		refuses("call Migrate first", func(ctx context.Context) error {
			tx, err := raw.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			defer tx.Rollback() //nolint:errcheck // nothing was done
			_, err = s.EnqueueTx(ctx, tx, jobs.NewTask{Pool: "p"})
			return err
		})
		before, err := s.Sides().Admin.MigrationStatus(t.Context())
		if err != nil || len(before) == 0 || !before[0].AppliedAt.IsZero() {
			t.Fatalf("%+v %v", before, err)
		}
		if err := s.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := s.CheckSchema(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantMigrations(t, raw, d, "x_")
		after, err := s.Sides().Admin.MigrationStatus(t.Context())
		if err != nil || after[0].AppliedAt.IsZero() || after[0].Name != "start" {
			t.Fatalf("%+v %v", after, err)
		}

		// A newer program was here, and allows this one.
		exec(`INSERT INTO x_migrations (version, name, min_compatible, applied_at) VALUES (99, 'later', 1, 5)`)
		if err := s.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		all, err := s.Sides().Admin.MigrationStatus(t.Context())
		if last := all[len(all)-1]; err != nil || last.Version != 99 || !last.Unknown {
			t.Fatalf("%+v %v", all, err)
		}
		exec(fmt.Sprintf(`UPDATE x_migrations SET min_compatible = %d WHERE version = 99`, len(before)))
		if err := s.CheckSchema(t.Context()); err != nil {
			t.Errorf("it allows the newest that this program knows: %v", err)
		}
		// It does not.
		exec(`UPDATE x_migrations SET min_compatible = 98 WHERE version = 99`)
		refuses("98", s.CheckSchema)
		refuses("98", s.Migrate)

		// A migration was left out when they were applied by hand.
		exec(`DELETE FROM x_migrations WHERE version <= 3`)
		exec(`UPDATE x_migrations SET min_compatible = 1 WHERE version = 99`)
		refuses("0001_start", s.CheckSchema)
		namespace, err := s.Namespace(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Migrate(t.Context()); err != nil { // the statements run a second time
			t.Fatal(err)
		}
		if again, err := s.Namespace(t.Context()); err != nil || again != namespace {
			t.Fatalf("the namespace %s became %s, %v", namespace, again, err)
		}

		exec(`DELETE FROM x_migrations WHERE version = 2`)
		refuses("migration 0002_", s.CheckSchema)
		if err := s.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantMigrations(t, raw, d, "x_")

		// What was applied is not applied again, whatever became of it.
		exec(`DELETE FROM x_meta WHERE name = 'namespace'`)
		exec(fmt.Sprintf(`DELETE FROM x_migrations WHERE version = %d`, len(before)))
		if err := s.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		refuses("no namespace", func(ctx context.Context) error { _, err := s.Namespace(ctx); return err })
		if err := s.CheckSchema(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// wantMigrations compares the migrations in the database with the files.
func wantMigrations(t *testing.T, db *sql.DB, d store.Dialect, prefix string) {
	t.Helper()
	steps, err := migrations.For(d)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range steps {
		var name string
		var least int
		row := db.QueryRowContext(t.Context(), fmt.Sprintf(`SELECT name, min_compatible FROM %smigrations WHERE version = %d`, prefix, step.Version))
		if err := row.Scan(&name, &least); err != nil || name != step.Name || least != step.MinCompatible {
			t.Errorf("migration %d is %q, for programs that know %d, want %q and %d: %v", step.Version, name, least, step.Name, step.MinCompatible, err)
		}
	}
}

// A statement of a migration that fails ends it, and the error names it. It is not taken for one that runs a second time.
func TestMigrationsThatFail(t *testing.T) {
	eachDialect(t, func(t *testing.T, d store.Dialect, dsn string) {
		s := open(t, d, dsn, store.Options{})
		raw := openRaw(t, d, dsn)
		steps, _, _ := strings.Cut(migrationSQL(t, d), ";\n") // an earlier one was interrupted
		for _, statement := range []string{steps, `CREATE VIEW lockstep_tasks AS SELECT 1 AS mine`} {
			if _, err := raw.ExecContext(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Migrate(t.Context()); err == nil || !strings.Contains(err.Error(), "migration 00") {
			t.Errorf("beside a view of the name of a table: %v", err)
		}
		if err := s.CheckSchema(t.Context()); !errors.Is(err, store.ErrSchema) {
			t.Errorf("after that: %v", err)
		}
		if d == store.MySQL {
			return // which commits what went before
		}
		if _, err := raw.ExecContext(t.Context(), `DROP VIEW lockstep_tasks`); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(s.Migrate(t.Context()), s.CheckSchema(t.Context())); err != nil {
			t.Errorf("once it is gone: %v", err)
		}
	})
}

// A table or a view of something else that has a name of the schema is refused before anything is created.
func TestMigrateBesideATableOfSomethingElse(t *testing.T) {
	for _, foreign := range []string{
		`CREATE TABLE lockstep_tasks (mine INT)`, `CREATE VIEW lockstep_tasks AS SELECT 1 AS mine`, `CREATE TABLE lockstep_kinds (mine INT)`,
	} {
		eachDialect(t, func(t *testing.T, d store.Dialect, dsn string) {
			s := open(t, d, dsn, store.Options{})
			raw := openRaw(t, d, dsn)
			if _, err := raw.ExecContext(t.Context(), foreign); err != nil {
				t.Fatal(err)
			}
			err := s.Migrate(t.Context())
			name := strings.Fields(foreign)[2]
			if !errors.Is(err, store.ErrSchema) || !strings.Contains(err.Error(), "there is a table "+name+" already") || !strings.Contains(err.Error(), "store.table_prefix") {
				t.Errorf("%s: %v", foreign, err)
			}
			if _, err := raw.ExecContext(t.Context(), `SELECT 1 FROM lockstep_meta`); err == nil {
				t.Errorf("%s: some tables were created", foreign)
			}
			beside := open(t, d, dsn, store.Options{Prefix: "other_"})
			if err := errors.Join(beside.Migrate(t.Context()), beside.CheckSchema(t.Context())); err != nil {
				t.Errorf("%s: with another prefix: %v", foreign, err)
			}
		})
	}
}

// A trigger is no table, and may have the name of one.
func TestMigrateBesideATriggerOfSomethingElse(t *testing.T) {
	eachDialect(t, func(t *testing.T, d store.Dialect, dsn string) {
		raw := openRaw(t, d, dsn)
		does := map[store.Dialect]string{store.SQLite: `BEGIN SELECT 1; END`, store.MySQL: `FOR EACH ROW SET @inserted = 1`}[d]
		for _, statement := range []string{`CREATE TABLE mine (n INT)`, `CREATE TRIGGER lockstep_tasks AFTER INSERT ON mine ` + does} {
			if _, err := raw.ExecContext(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
		s := open(t, d, dsn, store.Options{})
		if err := errors.Join(s.Migrate(t.Context()), s.CheckSchema(t.Context())); err != nil {
			t.Error(err)
		}
	})
}

func migrationSQL(t *testing.T, d store.Dialect) string {
	t.Helper()
	text, err := store.MigrationSQL(d, "")
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestMigrationSQL(t *testing.T) {
	eachDialect(t, func(t *testing.T, d store.Dialect, dsn string) {
		text := migrationSQL(t, d)
		if !strings.Contains(text, "\n-- 0001_start\n") {
			t.Error("no line says where a migration begins")
		}
		s := open(t, d, dsn, store.Options{})
		raw := openRaw(t, d, dsn)
		for statement := range strings.SplitSeq(text, ";\n") {
			if strings.TrimSpace(statement) == "" {
				continue
			}
			if _, err := raw.ExecContext(t.Context(), statement); err != nil {
				t.Fatalf("%s: %v", statement, err)
			}
		}
		wantMigrations(t, raw, d, "lockstep_")
		if err := s.CheckSchema(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Namespace(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	if _, err := store.MigrationSQL(store.MySQL, "x; DROP"); err == nil {
		t.Fatal("a prefix that is SQL was accepted")
	}
}

// Both dialects have the same tables, columns and indexes.
func TestDialectsAgree(t *testing.T) {
	var shapes []map[string][]string
	for _, d := range []store.Dialect{store.SQLite, store.MySQL} {
		steps, err := migrations.For(d)
		if err != nil {
			t.Fatal(err)
		}
		shape := map[string][]string{}
		for _, step := range steps {
			shape["migrations"] = append(shape["migrations"], fmt.Sprint(step.Version, step.Name, step.MinCompatible))
			for _, statement := range step.Statements("") {
				describe(shape, statement)
			}
		}
		for _, columns := range shape {
			slices.Sort(columns)
		}
		shapes = append(shapes, shape)
	}
	if len(shapes[0]) < 12 {
		t.Fatalf("only %d tables were understood", len(shapes[0]))
	}
	if diff := cmp.Diff(shapes[0], shapes[1]); diff != "" {
		t.Fatalf("sqlite (-) and mysql (+): %s", diff)
	}
}

var (
	tableStart = regexp.MustCompile(`^CREATE TABLE IF NOT EXISTS (\w+) \(`)
	column     = regexp.MustCompile(`^  ([a-z_]+) +[A-Z]+(?:\(\d+\))? +(NOT NULL|NULL)( PRIMARY KEY)?( DEFAULT \S+?)?(?:,| |$)`)
	altered    = regexp.MustCompile(`^ALTER TABLE (\w+)\n`)
	addColumn  = regexp.MustCompile(`(?m)^  ADD COLUMN ([a-z_]+) +[A-Z]+(?:\(\d+\))? +(NOT NULL|NULL)( DEFAULT [^\s,]+)`)
	primary    = regexp.MustCompile(`^  PRIMARY KEY (\(.*\)),?`)
	mysqlIndex = regexp.MustCompile(`^  (UNIQUE )?KEY (\w+) (\(.*?\))`)
	liteIndex  = regexp.MustCompile(`^CREATE (UNIQUE )?INDEX IF NOT EXISTS (\w+) ON (\w+) (\(.*\))`)
)

func describe(shape map[string][]string, statement string) {
	if m := liteIndex.FindStringSubmatch(statement); m != nil {
		shape[m[3]] = append(shape[m[3]], fmt.Sprintf("%sindex %s %s", strings.ToLower(m[1]), m[2], m[4]))
		return
	}
	if m := altered.FindStringSubmatch(statement); m != nil {
		for _, added := range addColumn.FindAllStringSubmatch(statement, -1) {
			shape[m[1]] = append(shape[m[1]], strings.Join(added[1:], " "))
		}
		return
	}
	m := tableStart.FindStringSubmatch(statement)
	if m == nil {
		return
	}
	table := m[1]
	for line := range strings.Lines(statement) {
		line = strings.TrimRight(line, "\n")
		if m := column.FindStringSubmatch(line); m != nil {
			shape[table] = append(shape[table], strings.Join(m[1:], " "))
		} else if m := primary.FindStringSubmatch(line); m != nil {
			shape[table] = append(shape[table], "primary "+m[1])
		} else if m := mysqlIndex.FindStringSubmatch(line); m != nil {
			shape[table] = append(shape[table], fmt.Sprintf("%sindex %s %s", strings.ToLower(m[1]), m[2], m[3]))
		}
	}
}
