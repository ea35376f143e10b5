package cluster

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/program"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// says reports whether a replica's metrics have a sample, as in the exposition.
func says(r *replica, sample string) bool {
	answer, err := http.Get(r.url + "/metrics")
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return err == nil && answer.StatusCode == http.StatusOK && strings.Contains("\n"+string(text), "\n"+sample+"\n")
}

// The metrics of the alerts are on /metrics of the other replicas: a replica is killed with its work, and then the lock
// service stops.
func TestMetricsOfDisasters(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	redis := servers.NewRedis(t)
	config := filepath.Join(dir, "lockstep.yaml")
	text := fmt.Sprintf(`version: 1
replica: {session_ttl: 3s}
store: {driver: sqlite, dsn: %q}
lock: {driver: redis, ttl: 3s, redis: {addrs: [%q]}}
jobs:
  sleeper: {schedule: "@every 1s", command: [sleep, "60"]}
`, filepath.Join(dir, "lockstep.db"), redis.Addr)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	see := func(r *replica, samples ...string) {
		t.Helper()
		for _, sample := range samples {
			program.Within(t, time.Minute, r.id+" says "+sample, func() bool { return says(r, sample) })
		}
	}
	a := startReplica(t, config, "a")
	see(a, `lockstep_attempts_running{pool="default"} 1`, `lockstep_lock_up{backend="redis"} 1`)
	b := startReplica(t, config, "b")
	see(b, `lockstep_replicas{state="live"} 2`, `lockstep_pool_running_tasks{pool="default"} 1`,
		`lockstep_tasks_ended_total{pool="default",state="lost"} 0`, `lockstep_replicas_declared_dead_total 0`)

	a.Kill(t)
	see(b, `lockstep_replicas_declared_dead_total 1`, `lockstep_tasks_ended_total{pool="default",state="lost"} 1`,
		`lockstep_triggers_ended_total{outcome="lost",result=""} 1`, `lockstep_stripes 64`,
		`lockstep_replicas{state="live"} 1`, `lockstep_job_failing{name="sleeper"} 1`)

	redis.Stop()
	see(b, `lockstep_lock_up{backend="redis"} 0`, `lockstep_replica_ready 1`)
	redis.Start()
	see(b, `lockstep_lock_up{backend="redis"} 1`)
}
