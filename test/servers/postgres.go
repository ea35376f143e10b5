package servers

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Where Debian's packages put them: not in the PATH.
const (
	postgresProgram = "/usr/lib/postgresql/*/bin/postgres"
	initdbProgram   = "/usr/lib/postgresql/*/bin/initdb"
	psqlProgram     = "/usr/lib/postgresql/*/bin/psql"
)

// Postgres returns the URL of a new empty database on the PostgreSQL that the tests of this binary share, for benchmarks of what
// runs on it. The database is dropped when the test ends.
func Postgres(t testing.TB) string {
	t.Helper()
	need(t, "PostgreSQL", postgresProgram, initdbProgram, psqlProgram)
	s, err := sharedPostgres()
	if err != nil {
		t.Fatal(err)
	}
	name := "lockstep_test_" + strings.ToLower(rand.Text())[:12]
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	if _, err := psql(ctx, s, "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), startLimit)
		defer cancel()
		if _, err := psql(ctx, s, "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			t.Logf("a database is left behind: %v", err)
		}
	})
	return fmt.Sprintf("postgres://%s@%s/%s?sslmode=disable", postgresUser, s.addr(), name)
}

const postgresUser = "lockstep"

var sharedPostgres = sync.OnceValues(func() (*instance, error) {
	s := postgresInstance()
	return s, s.open()
})

// postgresInstance has the defaults of PostgreSQL, which wait for the disk at each commit, and room for a benchmark.
func postgresInstance() *instance {
	return &instance{name: "PostgreSQL", owner: accountOf("postgres"), ready: postgresReady, argv: func(s *instance) ([]string, error) {
		data := filepath.Join(s.dir, "data")
		if _, err := os.Stat(data); err != nil {
			if err := initdb(s, data); err != nil {
				return nil, err
			}
		}
		program, err := newest(postgresProgram)
		if err != nil {
			return nil, err
		}
		return []string{
			program, "-D", data, "-h", "127.0.0.1", "-p", strconv.Itoa(s.port), "-k", s.dir,
			"-c", "shared_buffers=256MB", "-c", "max_wal_size=4GB", "-c", "max_connections=200",
		}, nil
	}}
}

func initdb(s *instance, data string) error {
	program, err := newest(initdbProgram)
	if err != nil {
		return err
	}
	cmd := exec.Command(program, "--pgdata", data, "--username", postgresUser, "--auth", "trust", "--no-locale", "--encoding", "UTF8", "--no-sync")
	cmd.Dir, cmd.SysProcAttr = s.dir, attributes(s.owner)
	var out []byte
	if err := onKeeper(func() (err error) { out, err = cmd.CombinedOutput(); return err }); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	return nil
}

// postgresReady asks for the data folder: if another process has the port, this server is about to end.
func postgresReady(ctx context.Context, s *instance) error {
	data, err := psql(ctx, s, "SHOW data_directory")
	if err == nil && filepath.Clean(data) != filepath.Join(s.dir, "data") {
		return errPortTaken
	}
	return err
}

func psql(ctx context.Context, s *instance, statement string) (answer string, err error) {
	program, err := newest(psqlProgram)
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, program, "--no-psqlrc", "--host", "127.0.0.1", "--port", strconv.Itoa(s.port), "--username", postgresUser,
		"--dbname", "postgres", "--tuples-only", "--no-align", "--command", statement)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", statement, err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

// newest is the program of the newest version that is installed.
func newest(pattern string) (string, error) {
	found, err := find(pattern)
	if err != nil {
		return "", err
	}
	all := strings.Split(found, ":")
	return all[len(all)-1], nil
}
