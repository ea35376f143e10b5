//go:build linux

package cluster

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lockstep-scheduler/lockstep/test/program"
)

// The disk is full for a while, as seen by the replica: its writes are refused. Readiness reports it, nothing starts,
// and nothing is lost when there is space again.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config := filepath.Join(dir, "lockstep.yaml")
	if err := os.WriteFile(config, []byte("version: 1\nreplica: {session_ttl: 3s}\n"+
		"jobs:\n  second: {schedule: \"* * * * * *\", command: [\"true\"]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := startReplica(t, config, "r1")
	began := time.Now()
	program.Within(t, 15*time.Second, "the job runs", func() bool { return len(r.triggers(t, "&outcome=ran")) >= 2 })

	room := r.mayWrite(t, 0)
	program.Within(t, 15*time.Second, "readiness says so", func() bool {
		ready, detail := r.condition(t, "store")
		return !ready && strings.Contains(detail, "unavailable")
	})
	answer, err := http.Post(r.url+"/api/v1/jobs/second/run", "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("a run is answered with %s", answer.Status)
	}
	full := len(r.triggers(t, "")) // reading goes on
	time.Sleep(2 * time.Second)    // nothing may happen meanwhile
	if n := len(r.triggers(t, "")); n > full {
		t.Errorf("%d due times were decided on a full disk", n-full)
	}

	r.mayWrite(t, room)
	program.Within(t, 15*time.Second, "readiness is green again", func() bool {
		ready, detail := r.condition(t, "store")
		return ready && detail == ""
	})
	back := time.Now().UTC().Add(time.Second)
	program.Within(t, 15*time.Second, "the job runs again", func() bool {
		return len(r.triggers(t, "&outcome=ran&since="+back.Format(time.RFC3339))) >= 2
	})
	r.wantEverySecond(t, time.Since(began))
}

// mayWrite bounds the size of the replica's files, and returns the bound before.
func (r *replica) mayWrite(t *testing.T, limit uint64) uint64 {
	t.Helper()
	var before unix.Rlimit
	if err := unix.Prlimit(r.Cmd.Process.Pid, unix.RLIMIT_FSIZE, nil, &before); err != nil {
		t.Fatal(err)
	}
	if err := unix.Prlimit(r.Cmd.Process.Pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: limit, Max: before.Max}, nil); err != nil {
		t.Fatal(err)
	}
	return before.Cur
}
