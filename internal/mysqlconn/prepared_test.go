package mysqlconn_test

import (
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/mysqlconn"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// counters are what the server counted of this connection's statements.
func counters(t *testing.T, conn *sql.Conn) (prepared, executed, closed, texts int) {
	t.Helper()
	rows, err := conn.QueryContext(t.Context(), "SHOW SESSION STATUS WHERE Variable_name IN ('Com_stmt_prepare', 'Com_stmt_execute', 'Com_stmt_close', 'Com_select')")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		var n int
		if err := rows.Scan(&name, &n); err != nil {
			t.Fatal(err)
		}
		switch name {
		case "Com_stmt_prepare":
			prepared = n
		case "Com_stmt_execute":
			executed = n
		case "Com_stmt_close":
			closed = n
		default:
			texts = n
		}
	}
	return prepared, executed, closed, texts
}

func open(t *testing.T, statements ...string) *sql.Conn {
	t.Helper()
	c, err := mysqlconn.Parse(servers.MySQL(t))
	if err != nil {
		t.Fatal(err)
	}
	db, err := mysqlconn.Open(c, nil, 1, 10*time.Second, statements...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func ask(t *testing.T, conn *sql.Conn, text string, n int) {
	t.Helper()
	var got int
	if err := conn.QueryRowContext(t.Context(), text, n).Scan(&got); err != nil || got != n {
		t.Fatalf("%s: %d, %v", text, got, err)
	}
}

// A text is prepared when it is sent for the third time on a connection, once, and is no other statement for that.
func TestWhatIsSentOftenIsPrepared(t *testing.T) {
	t.Parallel()
	conn := open(t)
	for i, want := range [][2]int{{0, 0}, {0, 0}, {1, 1}, {1, 2}, {1, 3}} {
		ask(t, conn, "SELECT ?", i)
		if prepared, executed, _, _ := counters(t, conn); prepared != want[0] || executed != want[1] {
			t.Errorf("sent %d times: %d were prepared, %d executed", i+1, prepared, executed)
		}
	}
	for range 5 { // without parameters, of another kind, and what may not be prepared
		for _, text := range []string{"SET @a=1", "COMMIT"} {
			if _, err := conn.ExecContext(t.Context(), text); err != nil {
				t.Fatal(err)
			}
		}
		if err := conn.QueryRowContext(t.Context(), "SELECT 1").Scan(new(int)); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.ExecContext(t.Context(), "SET @a=?", 1); err != nil {
			t.Fatal(err)
		}
	}
	if prepared, _, _, _ := counters(t, conn); prepared != 1 {
		t.Errorf("%d were prepared", prepared)
	}
	if _, err := conn.ExecContext(t.Context(), "CREATE TABLE a (id INT PRIMARY KEY, v VARBINARY(10))"); err != nil {
		t.Fatal(err)
	}
	for i := range 9 { // and what they do is the same
		if i == 6 {
			if _, err := conn.ExecContext(t.Context(), "ALTER TABLE a ADD COLUMN w INT NULL FIRST"); err != nil {
				t.Fatal(err)
			}
		}
		res, err := conn.ExecContext(t.Context(), "INSERT INTO a (id, v) VALUES (?, ?)", i, []byte{'\'', byte(i), 0xff})
		if err != nil {
			t.Fatal(err)
		}
		var v []byte
		if n, err := res.RowsAffected(); n != 1 || err != nil {
			t.Errorf("%d rows, %v", n, err)
		}
		if err := conn.QueryRowContext(t.Context(), "SELECT v FROM a WHERE id=?", i).Scan(&v); err != nil || string(v) != string([]byte{'\'', byte(i), 0xff}) {
			t.Errorf("row %d is %q, %v", i, v, err)
		}
	}
}

// A connection keeps a few statements only: the server has so many for all of its clients.
func TestFewStatementsAreKept(t *testing.T) {
	t.Parallel()
	conn := open(t)
	for i := range 60 {
		for range 3 {
			ask(t, conn, fmt.Sprintf("SELECT ?+%d-%[1]d", i), i)
		}
	}
	prepared, executed, closed, _ := counters(t, conn)
	if prepared != 60 || executed != 60 || prepared-closed != 24 {
		t.Errorf("%d were prepared, %d executed, and %d closed", prepared, executed, closed)
	}
}

// Where the server prepares no more statements, they are sent as texts.
func TestServerThatPreparesNoMore(t *testing.T) {
	server := servers.NewMySQL(t, "--max-prepared-stmt-count=1")
	c, err := mysqlconn.Parse(server.DSN(""))
	if err != nil {
		t.Fatal(err)
	}
	db, err := mysqlconn.Open(c, nil, 1, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for i := range 5 {
		ask(t, conn, "SELECT ?", i)
		ask(t, conn, "SELECT ?+0", i)
	}
	if prepared, executed, _, texts := counters(t, conn); executed != 3 || texts < 10-executed {
		t.Errorf("%d were prepared, %d executed, %d in all", prepared, executed, texts)
	}
}
