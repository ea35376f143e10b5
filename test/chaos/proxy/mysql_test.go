package proxy_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/lockstep-scheduler/lockstep/test/chaos/proxy"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

func TestMain(m *testing.M) { os.Exit(servers.Main(m)) }

const patience = time.Second // of a client that waits for an answer

// A client without an answer to COMMIT cannot know its outcome; that depends on what was lost.
func TestLostCommit(t *testing.T) {
	direct, db, p := mysqlEdge(t, patience)
	for name, c := range map[string]struct {
		verdict proxy.Verdict
		took    int
		timeout bool
	}{
		"nothing":        {proxy.Pass, 1, false},
		"the request":    {proxy.LoseRequest, 0, false},
		"the reply":      {proxy.LoseReply, 1, false},
		"without a word": {proxy.SwallowReply, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			var commits sync.Map
			p.Judge(func(command proxy.Command) proxy.Verdict {
				if command.Is("commit") {
					commits.Store(command.Conn, true)
					return c.verdict
				}
				return proxy.Pass
			})
			defer p.Judge(nil)
			before := p.Counts().Lost
			began := time.Now()
			err := insert(t.Context(), db, name)
			switch {
			case c.verdict == proxy.Pass && err != nil:
				t.Error(err)
			case c.verdict != proxy.Pass && err == nil:
				t.Error("the client learned of its commit")
			case c.timeout != (time.Since(began) >= patience):
				t.Errorf("%v after %v", err, time.Since(began))
			}
			var rows int
			if err := direct.QueryRow("SELECT COUNT(*) FROM t WHERE name = ?", name).Scan(&rows); err != nil {
				t.Fatal(err)
			}
			if rows != c.took {
				t.Errorf("%d rows, want %d", rows, c.took)
			}
			n := 0
			commits.Range(func(any, any) bool { n++; return true })
			if n != 1 {
				t.Errorf("%d connections sent a commit", n)
			}
			if lost := p.Counts().Lost > before; lost != (c.verdict != proxy.Pass) {
				t.Errorf("%+v", p.Counts())
			}
		})
	}
	if err := insert(t.Context(), db, "afterwards"); err != nil {
		t.Error(err)
	}
}

// Statements are seen whole, each once, also those that are larger than what is read at once.
func TestCommandsAreDistinguished(t *testing.T) {
	_, db, p := mysqlEdge(t, plenty)
	var mu sync.Mutex
	var seen []string
	p.Judge(func(c proxy.Command) proxy.Verdict {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, c.Query)
		return proxy.Pass
	})
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	mu.Lock()
	seen = nil
	mu.Unlock()
	const full = 1<<24 - 1 - len("\x03SELECT LENGTH('')") // one packet holds no more, and an empty one must follow
	for _, length := range []int{1, 100_000, full, 2} {
		text := "SELECT LENGTH('" + strings.Repeat("x", length) + "')"
		var got int
		if err := conn.QueryRowContext(t.Context(), text).Scan(&got); err != nil || got != length {
			t.Errorf("%d instead of %d, %v", got, length, err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	var lengths []int
	for _, q := range seen {
		lengths = append(lengths, len(q))
	}
	if !slices.Equal(lengths, []int{18, 100_017, full + 17, 19}) {
		t.Errorf("statements of %v bytes", lengths)
	}
}

// A statement that was prepared is seen by its text when it is run, also if it was prepared before Judge.
func TestPreparedStatementsAreSeen(t *testing.T) {
	_, db, p := mysqlEdge(t, plenty)
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var prepared []*sql.Stmt
	for _, text := range []string{"SELECT ?+1", "SELECT ?+2"} {
		s, err := conn.PrepareContext(t.Context(), text)
		if err != nil {
			t.Fatal(err)
		}
		prepared = append(prepared, s)
	}
	if _, err := conn.PrepareContext(t.Context(), "SELECT nothing FROM nowhere WHERE a=?"); err == nil {
		t.Fatal("prepared")
	}
	var mu sync.Mutex
	var seen []string
	p.Judge(func(c proxy.Command) proxy.Verdict {
		mu.Lock()
		defer mu.Unlock()
		if c.Query != "" {
			seen = append(seen, c.Query)
		}
		return proxy.Pass
	})
	for i, s := range slices.Backward(prepared) {
		var got int
		if err := s.QueryRowContext(t.Context(), 5).Scan(&got); err != nil || got != 6+i {
			t.Fatalf("%d, %v", got, err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if !slices.Equal(seen, []string{"SELECT ?+2", "SELECT ?+1"}) {
		t.Errorf("%q were seen", seen)
	}
}

// mysqlEdge is a database with a table, reached directly and over an edge.
func mysqlEdge(t *testing.T, patience time.Duration) (direct, db *sql.DB, p *proxy.Proxy) {
	t.Helper()
	dsn, err := mysql.ParseDSN(servers.MySQL(t))
	if err != nil {
		t.Fatal(err)
	}
	dsn.Logger, dsn.MaxAllowedPacket = &mysql.NopLogger{}, 64<<20
	if p, err = proxy.ListenMySQL(dsn.Addr); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	direct = open(t, dsn)
	if _, err := direct.Exec("CREATE TABLE t (name VARCHAR(40))"); err != nil {
		t.Fatal(err)
	}
	dsn.Addr, dsn.ReadTimeout = p.Addr(), patience
	return direct, open(t, dsn), p
}

func open(t *testing.T, dsn *mysql.Config) *sql.DB {
	t.Helper()
	connector, err := mysql.NewConnector(dsn) // a DSN has no place for its logger
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	t.Cleanup(func() { db.Close() })
	return db
}

func insert(ctx context.Context, db *sql.DB, name string) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "INSERT INTO t VALUES (?)", name)
	if err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}
