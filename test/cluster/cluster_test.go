package cluster

import (
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/program"
)

const (
	webTasks   = 2000
	shellTasks = 100
	lostWithin = sessionTTL + 3*time.Second
)

// One replica is killed in the middle of its work, another drained; nothing is lost without a record, nothing is done
// twice, and no second is late.
func TestCluster(t *testing.T) {
	t.Parallel()
	for _, c := range cells {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			web := newCounter(t)
			f := setUp(t, c, web.URL)
			replicas := []*replica{startReplica(t, f.config, "r1"), startReplica(t, f.config, "r2"), startReplica(t, f.config, "r3")}
			first := replicas[0]
			start := time.Now()

			ids := map[string][]string{
				"keep":  first.enqueue(t, "keep", 3),
				"again": first.enqueue(t, "again", 4),
			}
			// One place per replica in keep, two in again: a killed replica runs one that stays
			// lost, and at least two replicas run one that is tried again.
			var victim *replica
			program.Within(t, 15*time.Second, "every long task runs", func() bool {
				keep, again := first.tasks(t, "keep", "running"), first.tasks(t, "again", "running")
				if len(keep) < 3 || len(again) < 4 {
					return false
				}
				i := slices.IndexFunc(replicas, func(r *replica) bool {
					return r != first && slices.ContainsFunc(keep, runBy(r)) && slices.ContainsFunc(again, runBy(r))
				})
				if i < 0 {
					t.Fatalf("no replica to kill: keep %v, again %v", keep, again)
				}
				victim = replicas[i]
				return true
			})
			survivor := replicas[3-slices.Index(replicas, victim)]

			ids["web"] = first.enqueue(t, "web", webTasks*9/10)
			ids["shell"] = survivor.enqueue(t, "shell", shellTasks)
			program.Within(t, 30*time.Second, "the web pool is in the middle, and the replica to kill has its part in it", func() bool {
				if web.seen() <= webTasks/8 {
					return false
				}
				victim.Pause(t, true) // else it may have recorded its part before it is killed
				if slices.ContainsFunc(survivor.tasks(t, "web", "running"), runBy(victim)) {
					return true
				}
				victim.Pause(t, false)
				return false
			})
			killed := time.Now()
			victim.Kill(t)
			ids["web"] = append(ids["web"], survivor.enqueue(t, "web", webTasks-webTasks*9/10)...)

			program.Within(t, lostWithin-time.Since(killed), "what stays lost says so", func() bool {
				lost := survivor.tasks(t, "keep", "lost")
				return len(lost) == 1 && lost[0].Replica == victim.id
			})
			t.Logf("lost was said %v after the kill", time.Since(killed).Round(time.Millisecond))
			program.Within(t, lostWithin-time.Since(killed), "what is tried again runs elsewhere", func() bool {
				again := survivor.tasks(t, "again", "running")
				return len(again) == 4 && !slices.ContainsFunc(again, runBy(victim))
			})
			t.Logf("tried again %v after the kill", time.Since(killed).Round(time.Millisecond))

			first.Signal(t, syscall.SIGTERM)
			if err := os.WriteFile(f.release, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			first.WantDrained(t, drainTimeout+10*time.Second)

			program.Within(t, 60*time.Second, "every task has ended", func() bool { return f.openTasks(t) == 0 })
			program.Within(t, 30*time.Second, "twenty seconds were due", func() bool { return time.Since(start) > 20*time.Second })
			stopped := time.Now()
			survivor.Drain(t, drainTimeout+10*time.Second)

			t.Logf("all replicas ended %v after the start", time.Since(start).Round(time.Millisecond))
			f.verdict(t, victim.id, killed, stopped, ids, web)
		})
	}
}

func runBy(r *replica) func(task) bool { return func(t task) bool { return t.Replica == r.id } }

// counter is the application behind the web pool: it works for a while and counts requests by
// idempotency key.
type counter struct {
	*httptest.Server
	mu       sync.Mutex
	requests map[string]int
}

func newCounter(t *testing.T) *counter {
	c := &counter{requests: map[string]int{}}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := r.Header.Get("Idempotency-Key")
		c.mu.Lock()
		c.requests[key[strings.LastIndex(key, "/")+1:]]++
		c.mu.Unlock()
		time.Sleep(100 * time.Millisecond) // the work
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *counter) seen() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.requests)
}

func (c *counter) of(id string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.requests[id]
}
