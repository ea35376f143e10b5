package cluster

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/program"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// lockService is a lock service that can be stopped and started.
type lockService struct {
	name, when string // when is the replica's when_down
	open       func(t *testing.T) (section string, stop, start func())
}

func lockServices() []lockService {
	redis := func(t *testing.T) (string, func(), func()) {
		s := servers.NewRedis(t)
		return fmt.Sprintf(`driver: redis, ttl: 2s, redis: {addrs: [%q]}`, s.Addr), s.Stop, s.Start
	}
	return []lockService{
		{"redis", "store", redis},
		{"redis", "wait", redis},
		{"zookeeper", "store", func(t *testing.T) (string, func(), func()) {
			s := servers.NewZooKeeper(t)
			return fmt.Sprintf(`driver: zookeeper, ttl: 2s, zookeeper: {servers: [%q], session_timeout: 2s}`, s.Addr), s.Stop, s.Start
		}},
		{"mysql", "store", func(t *testing.T) (string, func(), func()) {
			s := servers.NewMySQL(t)
			return fmt.Sprintf(`driver: mysql, ttl: 2s, mysql: {dsn: %q}`, s.DSN("locks")), s.Stop, s.Start
		}},
		{"redis that is frozen", "store", func(t *testing.T) (string, func(), func()) {
			s := servers.NewRedis(t)
			return fmt.Sprintf(`driver: redis, ttl: 2s, redis: {addrs: [%q]}`, s.Addr), s.Pause, s.Continue
		}},
	}
}

// TestStartWithoutTheLockService: a replica starts while its lock service is down, reports it, fires each due time
// within a second by rows alone, and acquires its stripes once the service is up. One with another lock service is
// refused meanwhile. With when_down: wait nothing starts before.
func TestStartWithoutTheLockService(t *testing.T) {
	t.Parallel()
	for _, l := range lockServices() {
		t.Run(l.name+", when_down "+l.when, func(t *testing.T) {
			t.Parallel()
			section, stop, start := l.open(t)
			stop()
			dir := t.TempDir()
			write := func(name, lock string) string {
				path := filepath.Join(dir, name)
				text := fmt.Sprintf("version: 1\nreplica: {session_ttl: 3s}\nstore: {dsn: lockstep.db}\nlock: {when_down: %s, %s}\n"+
					"jobs:\n  second: {schedule: \"* * * * * *\", command: [\"true\"]}\n", l.when, lock)
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				return path
			}
			program.Build(t, scheduler) // is not what is timed
			began := time.Now()
			r := startUnready(t, write("lockstep.yaml", section))
			program.Within(t, 15*time.Second, "readiness says that it is unavailable", func() bool {
				ready, detail := r.condition(t, "lock")
				return ready == (l.when == "store") && strings.Contains(detail, "unavailable for")
			})
			if log := r.Log(); !strings.Contains(log, "starting without it") || !strings.Contains(log, "service unavailable; retrying") {
				t.Errorf("its log does not say so:\n%s", log)
			}
			if text := r.metrics(t); !strings.Contains(text, "lockstep_lock_up{") || !strings.Contains(text, "} 0\n") {
				t.Error("the metric lock_up is not 0")
			}
			gone := time.Now()
			if l.when == "wait" {
				time.Sleep(4 * time.Second)
				if rows := r.triggers(t, ""); len(rows) > 0 {
					t.Errorf("something was decided: %+v", rows)
				}
			} else {
				program.Within(t, 15*time.Second, "the job runs without it", func() bool { return len(r.triggers(t, "&outcome=ran")) >= 4 })
				for _, row := range r.triggers(t, "") {
					if late := row.DecidedAt.Sub(row.At); late > time.Second && row.At.After(gone) {
						t.Errorf("%v was decided %v late", row.At, late)
					}
				}
				wantRefused(t, write("other.yaml", `driver: redis, redis: {addrs: ["127.0.0.1:1"]}`))
			}
			start()
			program.Within(t, 20*time.Second, "readiness is green", func() bool {
				ready, detail := r.condition(t, "lock")
				return ready && detail == ""
			})
			program.Within(t, 20*time.Second, "it holds its stripes' locks", func() bool { return r.stripes(t) == 64 })
			back := time.Now().UTC().Add(time.Second)
			program.Within(t, 15*time.Second, "the job runs with it", func() bool {
				return len(r.triggers(t, "&outcome=ran&since="+back.Format(time.RFC3339))) >= 2
			})
			if l.when == "store" {
				r.wantEverySecond(t, time.Since(began)-8*time.Second) // it may ask for six seconds first
			}
			r.Drain(t, 20*time.Second)
		})
	}
}

// startUnready returns as soon as the replica listens.
func startUnready(t *testing.T, config string) *replica {
	t.Helper()
	cmd := exec.Command(program.Build(t, scheduler), "serve", "-c", config, "--listen", "127.0.0.1:0", "--id", "r1")
	r := &replica{Process: program.Start(t, cmd), id: "r1"}
	program.Within(t, 15*time.Second, "the replica listens", func() bool {
		for line := range strings.Lines(r.Log()) {
			var record struct{ Msg, URL string }
			if json.Unmarshal([]byte(line), &record) == nil && record.Msg == "listening" {
				r.url = record.URL
			}
		}
		return r.url != "" || r.Ended(0)
	})
	if r.Ended(0) {
		t.Fatalf("it ended: %s", r.Log())
	}
	return r
}

// wantRefused starts a replica with another lock service.
func wantRefused(t *testing.T, config string) {
	t.Helper()
	out, err := exec.Command(program.Build(t, scheduler), "serve", "-c", config, "--listen", "127.0.0.1:0", "--id", "r2").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "give all replicas the same lock section") {
		t.Errorf("a replica with another lock service: %v\n%s", err, out)
	}
}

func (r *replica) metrics(t *testing.T) string {
	t.Helper()
	answer, err := http.Get(r.url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	var lines strings.Builder
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "lockstep_lock_up") {
			lines.WriteString(line)
		}
	}
	return lines.String()
}

// stripes is how many stripes' locks are held.
func (r *replica) stripes(t *testing.T) int {
	t.Helper()
	var page struct{ Items []struct{ Key, Owner string } }
	if err := r.call("GET", "/api/v1/locks?limit=500&prefix=sys/stripe/", nil, &page); err != nil {
		return 0
	}
	return len(page.Items)
}

// A lock service that answers and cannot be used ends the start, and the error says why: what only somebody can
// change is not waited for.
func TestAWrongLockServiceEndsTheStart(t *testing.T) {
	t.Parallel()
	redis, mysql, zookeeper := servers.NewRedis(t), servers.NewMySQL(t), servers.ZooKeeper(t)
	evicting := servers.NewRedis(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
	web, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = http.Serve(web, http.NotFoundHandler()) }() //nolint:gosec // ends with the listener
	t.Cleanup(func() { _ = web.Close() })
	other, _, _ := strings.Cut(mysql.DSNAs("u", "p", "locks")[len("u:p@tcp("):], ")")
	for name, c := range map[string]struct{ section, want string }{
		"redis where MySQL is":        {fmt.Sprintf(`driver: redis, redis: {addrs: [%q]}`, other), "lock.redis.addrs: MySQL answers at " + other + ", not Redis"},
		"redis where ZooKeeper is":    {fmt.Sprintf(`driver: redis, redis: {addrs: [%q]}`, zookeeper), "lock.redis.addrs: ZooKeeper without TLS answers at " + zookeeper},
		"redis where a web server is": {fmt.Sprintf(`driver: redis, redis: {addrs: [%q]}`, web.Addr()), "another kind of server answers at"},
		"zookeeper where Redis is":    {fmt.Sprintf(`driver: zookeeper, zookeeper: {servers: [%q]}`, redis.Addr), "lock.zookeeper.servers: Redis without TLS answers at " + redis.Addr},
		"mysql where Redis is":        {fmt.Sprintf(`driver: mysql, mysql: {dsn: "u:p@tcp(%s)/x"}`, redis.Addr), "lock.mysql.dsn: Redis without TLS answers at " + redis.Addr},
		"mysql, unknown account":      {fmt.Sprintf(`driver: mysql, mysql: {dsn: "u:p@tcp(%s)/x"}`, other), "Access denied"},
		"redis that evicts":           {fmt.Sprintf(`driver: redis, redis: {addrs: [%q]}`, evicting.Addr), "maxmemory-policy"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "lockstep.yaml")
			if err := os.WriteFile(file, []byte("version: 1\nlock: {"+c.section+"}\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			out, err := exec.Command(program.Build(t, scheduler), "serve", "-c", file, "--listen", "127.0.0.1:0").CombinedOutput()
			if took := time.Since(began); err == nil || took > 10*time.Second {
				t.Errorf("it ended after %v: %v", took, err)
			}
			if !strings.Contains(string(out), c.want) {
				t.Errorf("it does not say %q:\n%s", c.want, out)
			}
		})
	}
}
