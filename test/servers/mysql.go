package servers

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// MySQLServer is a MariaDB of one test. Its data survives Kill and Start.
type MySQLServer struct {
	*instance
	Addr  string // host:port
	Clock *Clock // nil: the machine's
	Disk  *Disk  // nil: the machine's

	mu   sync.Mutex
	made map[string]bool // databases that exist
}

// MySQL returns the DSN of a new empty database on the server that the tests of this binary share.
// The database is dropped when the test ends.
func MySQL(t testing.TB) string {
	t.Helper()
	server, err := mysql.ParseDSN(os.Getenv("LOCKSTEP_TEST_MYSQL_DSN"))
	if err != nil {
		t.Fatalf("LOCKSTEP_TEST_MYSQL_DSN: %v", err)
	}
	if os.Getenv("LOCKSTEP_TEST_MYSQL_DSN") == "" {
		need(t, "MariaDB", mariadbPrograms...)
		s, err := sharedMySQL()
		if err != nil {
			t.Fatal(err)
		}
		server = mysqlConfig(s)
	}
	server.DBName = ""
	name := "lockstep_test_" + strings.ToLower(rand.Text())[:12]
	if err := mysqlExec(server, "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := mysqlExec(server, "DROP DATABASE "+name); err != nil {
			t.Logf("a database is left behind: %v", err)
		}
	})
	ours := server.Clone()
	ours.DBName = name
	return ours.FormatDSN()
}

// MySQLArgs are more arguments of the mariadbd that the tests of this binary share, for a TestMain to set.
var MySQLArgs []string

var sharedMySQL = sync.OnceValues(func() (*instance, error) {
	s := mysqlInstance(Secure{}, MySQLArgs)
	return s, s.open()
})

// NewMySQL starts a MariaDB for this test, with more arguments of mariadbd if wished. It ends with
// the test.
func NewMySQL(t testing.TB, args ...string) *MySQLServer {
	t.Helper()
	return NewSecureMySQL(t, Secure{}, args...)
}

// NewSecureMySQL is NewMySQL with TLS, which accounts may require (CREATE USER … REQUIRE SSL, REQUIRE X509).
// The user root needs neither TLS nor a password.
func NewSecureMySQL(t testing.TB, secure Secure, args ...string) *MySQLServer {
	t.Helper()
	return newMySQL(t, secure, nil, nil, args)
}

func newMySQL(t testing.TB, secure Secure, clock *Clock, disk *Disk, args []string) *MySQLServer {
	t.Helper()
	need(t, "MariaDB", mariadbPrograms...)
	s := mysqlInstance(secure.complete(), args)
	s.tb, s.clock, s.disk = t, clock, disk
	t.Cleanup(s.remove)
	if err := s.open(); err != nil {
		t.Fatal(err)
	}
	return &MySQLServer{instance: s, Addr: s.addr(), Clock: clock, Disk: disk, made: map[string]bool{}}
}

// DSN names database db of this server, and creates it when it is first asked for. An empty db
// names none.
func (s *MySQLServer) DSN(db string) string {
	s.tb.Helper()
	server := mysqlConfig(s.instance)
	s.mu.Lock()
	defer s.mu.Unlock()
	if db != "" && !s.made[db] {
		if err := mysqlExec(server, "CREATE DATABASE IF NOT EXISTS `"+db+"`"); err != nil {
			s.tb.Fatal(err)
		}
		s.made[db] = true
	}
	server.DBName = db
	return server.FormatDSN()
}

// DSNAs is DSN for another user than root.
func (s *MySQLServer) DSNAs(user, password, db string) string {
	s.tb.Helper()
	s.DSN(db)
	return s.DSNOf(user, password, db)
}

// DSNOf is DSNAs for a database that exists: the server is not asked.
func (s *MySQLServer) DSNOf(user, password, db string) string {
	c := mysqlConfig(s.instance)
	c.User, c.Passwd, c.DBName = user, password, db
	return c.FormatDSN()
}

// Exec runs statements as root.
func (s *MySQLServer) Exec(statements ...string) {
	s.tb.Helper()
	for _, statement := range statements {
		if err := mysqlExec(mysqlConfig(s.instance), statement); err != nil {
			s.tb.Fatal(err)
		}
	}
}

var mariadbPrograms = []string{"mariadbd", "mariadb-install-db"}

func mysqlInstance(secure Secure, args []string) *instance {
	s := &instance{name: "MariaDB", ready: mysqlReady, owner: accountOf("mysql")}
	s.argv = func(s *instance) ([]string, error) {
		data := mysqlData(s)
		if _, err := os.Stat(data); err != nil {
			if err := copyTemplate(data, s.owner); err != nil {
				return nil, err
			}
		}
		program, _ := find("mariadbd")
		argv := []string{
			program, "--no-defaults", "--datadir=" + data, "--socket=" + filepath.Join(s.dir, "sock"),
			"--pid-file=" + filepath.Join(s.dir, "pid"), "--tmpdir=" + s.dir, "--bind-address=127.0.0.1",
			"--port=" + strconv.Itoa(s.port), "--skip-name-resolve", "--max-connections=1000",
			"--innodb-flush-log-at-trx-commit=1", // as the guarantees assume
			"--innodb-buffer-pool-size=64M", innodbLogSize, ariaLogSize,
		}
		if secure.Authority != nil {
			files, err := secure.install(s)
			if err != nil {
				return nil, err
			}
			argv = append(argv, "--ssl-ca="+files.ca, "--ssl-cert="+files.cert, "--ssl-key="+files.key)
		}
		return append(argv, args...), nil
	}
	return s
}

func mysqlData(s *instance) string {
	if s.disk != nil {
		return filepath.Join(s.disk.Dir, "data")
	}
	return filepath.Join(s.dir, "data")
}

// mysqlReady asks for the data folder too: if another process has the port, this server is about to end.
func mysqlReady(ctx context.Context, s *instance) error {
	db, err := sql.Open("mysql", mysqlConfig(s).FormatDSN())
	if err != nil {
		return err
	}
	defer db.Close()
	var data string
	if err := db.QueryRowContext(ctx, "SELECT @@datadir").Scan(&data); err != nil {
		return err
	}
	if filepath.Clean(data) != mysqlData(s) {
		return errPortTaken
	}
	return nil
}

func mysqlConfig(s *instance) *mysql.Config {
	c := mysql.NewConfig()
	c.User, c.Net, c.Addr = "root", "tcp", s.addr()
	c.Logger = &mysql.NopLogger{} // refused connections are normal while it starts
	return c
}

func mysqlExec(server *mysql.Config, statement string) error {
	db, err := sql.Open("mysql", server.FormatDSN())
	if err != nil {
		return err
	}
	defer db.Close()
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	if _, err := db.ExecContext(ctx, statement); err != nil {
		return fmt.Errorf("%s: %w", statement, err)
	}
	return nil
}
