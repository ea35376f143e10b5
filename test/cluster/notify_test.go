package cluster

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/test/program"
)

// receiver is a webhook that stores its events by id.
type receiver struct {
	mu   sync.Mutex
	keys map[string]string // idempotency key of each
	bad  []string          // what does not fit together
}

func (r *receiver) ServeHTTP(_ http.ResponseWriter, request *http.Request) {
	var told struct{ ID string }
	err := json.NewDecoder(request.Body).Decode(&told)
	key := request.Header.Get("Idempotency-Key")
	r.mu.Lock()
	defer r.mu.Unlock()
	before, again := r.keys[told.ID]
	if err != nil || key == "" || again && before != key {
		r.bad = append(r.bad, fmt.Sprintf("%s with key %q, and %q before: %v", told.ID, key, before, err))
	}
	r.keys[told.ID] = key
}

func (r *receiver) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.keys)
}

// A replica is killed while tasks fail and notifications are made and sent: of every task that failed
// or was lost somebody is told, with one idempotency key for each however often it was sent.
func TestKilledWhileNotifying(t *testing.T) {
	t.Parallel()
	for _, c := range cells[:2] {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			dialect, dsn, lock := c.open(t, dir)
			told := &receiver{keys: map[string]string{}}
			var failed atomic.Int32
			mux := http.NewServeMux()
			mux.Handle("/hook", told)
			mux.HandleFunc("/fail", func(w http.ResponseWriter, _ *http.Request) {
				failed.Add(1)
				time.Sleep(5 * time.Millisecond) // so that some are under way when the replica is killed
				w.WriteHeader(http.StatusTeapot)
			})
			server := httptest.NewServer(mux)
			defer server.Close()
			config := filepath.Join(dir, "lockstep.yaml")
			text := fmt.Sprintf(`version: 1
replica: {session_ttl: 3s}
store: {driver: %s, dsn: %q}
lock: %s
pools:
  p:
    http: {url: "%[4]s/fail"}
    on_lost: fail
    retries: {limit: 0}
    notify: {webhook: "%[4]s/hook"}
`, dialect, dsn, lock, server.URL)
			if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			a, b := startReplica(t, config, "a"), startReplica(t, config, "b")
			const n = 1500
			b.enqueue(t, "p", n)
			soon(t, "tasks fail", func() bool { return failed.Load() > n/5 })
			a.Kill(t)
			again := startReplica(t, config, "c")
			soon(t, "somebody is told", func() bool { return told.count() > n/5 })
			again.Kill(t)

			db, err := sql.Open(dialect, dsn)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			program.Within(t, 60*time.Second, "all tasks have ended", func() bool {
				var open int
				if err := db.QueryRow("SELECT COUNT(*) FROM lockstep_tasks WHERE pool='p'").Scan(&open); err != nil {
					t.Log(err)
					return false
				}
				return open == 0
			})
			want := map[string]bool{}
			ended := map[string]int{}
			rows, err := db.Query("SELECT id, state FROM lockstep_done WHERE pool='p'")
			if err != nil {
				t.Fatal(err)
			}
			defer rows.Close()
			for rows.Next() {
				var id, state string
				if err := rows.Scan(&id, &state); err != nil {
					t.Fatal(err)
				}
				want[state+"/"+id] = true
				ended[state]++
			}
			if err := rows.Err(); err != nil || len(want) != n {
				t.Fatalf("%d ended: %v", len(want), err)
			}
			t.Logf("ended as %v", ended)
			program.Within(t, 120*time.Second, "everything is told", func() bool { return told.count() >= n })
			got := map[string]bool{}
			told.mu.Lock()
			defer told.mu.Unlock()
			for id := range told.keys {
				got[id] = true
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("told (-want +got):\n%s", d)
			}
			if len(told.bad) > 0 {
				t.Errorf("%d did not fit, as %s", len(told.bad), told.bad[0])
			}
		})
	}
}

// soon waits for a moment that is over quickly.
func soon(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(60 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still not: %s", what)
		}
	}
}
