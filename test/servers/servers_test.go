package servers_test

import (
	"bufio"
	"database/sql"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/await"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

func TestMain(m *testing.M) { os.Exit(servers.Main(m)) }

func TestRedis(t *testing.T) {
	t.Parallel()
	if got := tell(t, servers.Redis(t), "PING\r\n"); got != "+PONG" {
		t.Errorf("PING: %q", got)
	}
	s := servers.NewRedis(t)
	tell(t, s.Addr, "SET a 1\r\n")
	s.Kill()
	if c, err := net.Dial("tcp", s.Addr); err == nil {
		c.Close()
		t.Error("connected to a killed server")
	}
	s.Start()
	if got := tell(t, s.Addr, "EXISTS a\r\n"); got != ":0" {
		t.Errorf("EXISTS after a restart: %q, want :0", got)
	}
	s.Stop()
	s.Start()
	s.Pause()
	c, err := net.Dial("tcp", s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	answer := make(chan string, 1)
	go func() {
		_, _ = c.Write([]byte("PING\r\n"))
		line, _ := bufio.NewReader(c).ReadString('\n')
		answer <- line
	}()
	select {
	case line := <-answer:
		t.Errorf("a paused server answered %q", line)
	case <-time.After(200 * time.Millisecond):
	}
	s.Continue()
	if line := <-answer; line != "+PONG\r\n" {
		t.Errorf("PING after Continue: %q", line)
	}
}

func TestMySQL(t *testing.T) {
	t.Parallel()
	one, two := open(t, servers.MySQL(t)), open(t, servers.MySQL(t))
	exec1(t, one, "CREATE TABLE a (id BIGINT PRIMARY KEY)")
	exec1(t, two, "CREATE TABLE a (id BIGINT PRIMARY KEY)") // another database, so the name is free

	s := servers.NewMySQL(t)
	db := open(t, s.DSN("ours"))
	exec1(t, db, "CREATE TABLE a (id BIGINT PRIMARY KEY)")
	exec1(t, db, "INSERT INTO a VALUES (7)")
	s.Kill()
	if err := db.Ping(); err == nil {
		t.Error("a killed server answered")
	}
	s.Start()
	var id int
	if err := open(t, s.DSN("ours")).QueryRow("SELECT id FROM a").Scan(&id); err != nil || id != 7 {
		t.Errorf("after a restart: %d, %v; want 7", id, err)
	}
	s.Stop()
}

func TestZooKeeper(t *testing.T) {
	t.Parallel()
	if got := tell(t, servers.ZooKeeper(t), "ruok"); got != "imok" {
		t.Errorf("ruok: %q", got)
	}
	s := servers.NewZooKeeper(t)
	s.Kill()
	s.Start()
	if got := tell(t, s.Addr, "ruok"); got != "imok" {
		t.Errorf("ruok after a restart: %q", got)
	}
}

// A test binary that is killed leaves no server behind.
func TestServersDieWithTheBinary(t *testing.T) {
	if file := os.Getenv("LOCKSTEP_TEST_ADDRESS_FILE"); file != "" {
		if err := os.WriteFile(file, []byte(servers.NewRedis(t).Addr), 0o600); err != nil {
			t.Fatal(err)
		}
		select {}
	}
	if _, err := os.Stat("/proc/self"); err != nil {
		servers.LeaveOut(t, "needs Linux, where a child can be tied to its parent")
	}
	t.Parallel()
	servers.Redis(t) // so that this binary leaves the test out, not the child, if there is no Redis
	file := filepath.Join(t.TempDir(), "address")
	child := exec.Command(os.Args[0], "-test.run=^TestServersDieWithTheBinary$")
	child.Env = append(os.Environ(), "LOCKSTEP_TEST_ADDRESS_FILE="+file, "TMPDIR="+filepath.Dir(file))
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = child.Process.Kill() }()
	var addr string
	await.Until(t, "the child's server is up", func() bool {
		text, _ := os.ReadFile(file)
		addr = string(text)
		return addr != ""
	})
	tell(t, addr, "PING\r\n")
	_ = child.Process.Kill()
	_ = child.Wait()
	await.Until(t, "the child's server is gone", func() bool {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
		}
		return err != nil
	})
}

// tell sends text and returns the first line of the answer.
func tell(t *testing.T, addr, text string) string {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := c.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil && line == "" {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

func open(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func exec1(t *testing.T, db *sql.DB, statement string) {
	t.Helper()
	if _, err := db.Exec(statement); err != nil {
		t.Fatal(err)
	}
}

// TestChromium: the browser is there, for the tests of the page.
func TestChromium(t *testing.T) {
	servers.Need(t, "chromium")
	if out, err := exec.Command("chromium", "--version").CombinedOutput(); err != nil || !strings.Contains(string(out), "Chromium") {
		t.Errorf("%v: %s", err, out)
	}
}
