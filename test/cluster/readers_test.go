package cluster

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/client"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/test/await"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// Forty clients that request 120 tasks with payloads of 256 KiB each, and read no response, cost next to nothing: no
// due time is skipped, and other clients are served. This checks that lists have no payloads and that unread responses
// are small. An idle replica with a store of its own shows how late due times are on this machine now. It would pass without the bound on concurrent reads, which has its own test: TestRoomIsBounded in package
// api.
func TestReadersThatDoNotRead(t *testing.T) {
	t.Parallel()
	const (
		held    = 120
		readers = 20
		most    = 300 << 20 // of memory
		watched = 15 * time.Second
	)
	for driver, dsn := range map[string]func() string{
		"sqlite": func() string { return "lockstep.db" },
		"mysql":  func() string { return servers.MySQL(t) },
	} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			start := func(id, driver, dsn string) *replica {
				config := filepath.Join(t.TempDir(), "lockstep.yaml")
				if err := os.WriteFile(config, fmt.Appendf(nil, `version: 1
store: {driver: %s, dsn: %q}
pools:
  later: {command: ["true"]}
jobs:
  second: {schedule: "* * * * * *", command: ["true"]}
`, driver, dsn), 0o600); err != nil {
					t.Fatal(err)
				}
				return startReplica(t, config, id)
			}
			r, idle := start("a", driver, dsn()), start("idle", "sqlite", "lockstep.db")
			c, err := client.New(r.url, client.Options{})
			if err != nil {
				t.Fatal(err)
			}
			large := jobs.NewTask{Pool: "later", Payload: strings.Repeat("x", jobs.MaxPayload-2), RunAt: time.Now().Add(time.Hour)}
			var ids []string
			for len(ids) < held {
				tasks, err := c.Enqueue(t.Context(), large, large, large, large, large, large, large, large, large, large)
				if err != nil {
					t.Fatal(err)
				}
				for _, task := range tasks {
					ids = append(ids, task.ID)
				}
			}
			await.Until(t, "what was written is on the disk, and due times are decided in time", func() bool {
				rows := r.triggers(t, "")
				return len(rows) >= 3 && !slices.ContainsFunc(rows[:3], func(row trigger) bool { return row.Count > 1 || row.DecidedAt.Sub(row.At) > time.Second/2 })
			})
			before := r.memory(t)
			began := time.Now()
			var peak int64
			for n := 0; time.Since(began) < watched; n++ {
				if n < 3*readers { // lists, then single tasks
					path := fmt.Sprintf("/api/v1/tasks?pool=later&limit=%d", held)
					if n >= 2*readers {
						path = "/api/v1/tasks/" + ids[n]
					}
					unread(t, strings.TrimPrefix(r.url, "http://"), path)
				}
				peak = max(peak, r.memory(t))
				time.Sleep(20 * time.Millisecond)
			}
			list, err := c.Tasks(t.Context(), wire.TaskFilter{Pool: "later", Page: wire.Page{Limit: held}})
			if err != nil || len(list.Items) != held || list.Items[0].PayloadSize != jobs.MaxPayload || len(list.Items[0].Payload) > 0 {
				t.Errorf("beside them a list has %d tasks: %v", len(list.Items), err)
			}
			if one, err := c.Task(t.Context(), ids[0]); err != nil || len(one.Task.Payload) != jobs.MaxPayload {
				t.Errorf("beside them a task has %d bytes of payload: %v", len(one.Task.Payload), err)
			}
			t.Logf("%d MiB before, %d MiB at most", before>>20, peak>>20)
			if peak > most {
				t.Errorf("the replica took %d MiB, and had %d before", peak>>20, before>>20)
			}
			rows := r.triggers(t, "")
			lateAnyhow := idle.lateness(t)
			for i, row := range rows {
				if row.At.Before(began) {
					break
				}
				// After a stall several are decided at once, and the next one may find their run.
				anyhow := max(lateAnyhow(row.At), lateAnyhow(row.At.Add(-time.Second)))
				late := row.DecidedAt.Sub(row.At)
				if (row.Outcome != "ran" && i > 1 || row.Count > 1) && anyhow < time.Second/2 || late > time.Second+anyhow {
					t.Errorf("%v is %q, %d due times, %v late, and beside it %v", row.At, row.Outcome, row.Count, late, anyhow)
				}
			}
			r.wantEverySecond(t, watched)
		})
	}
}

// lateness is how long after a due time the replica has decided it; what it has not decided is late until now.
func (r *replica) lateness(t *testing.T) func(at time.Time) time.Duration {
	t.Helper()
	now, decided := time.Now(), map[int64]time.Time{}
	for _, row := range r.triggers(t, "") {
		for n := range max(row.Count, 1) {
			decided[row.At.Unix()+int64(n)] = row.DecidedAt
		}
	}
	return func(at time.Time) time.Duration {
		by, ok := decided[at.Unix()]
		if !ok {
			by = now
		}
		return max(0, by.Sub(at))
	}
}

// unread sends a request and never reads the response, until the test ends.
func unread(t *testing.T, address, path string) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path); err != nil {
		t.Fatal(err)
	}
}

// memory is the resident memory of the process.
func (r *replica) memory(t *testing.T) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.Cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var kib int64
		if n, _ := fmt.Sscanf(line, "VmRSS: %d kB", &kib); n == 1 {
			return kib << 10
		}
	}
	t.Fatal("no VmRSS")
	return 0
}
