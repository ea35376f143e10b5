package scheduler_test

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/httphandler"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

// called keeps the requests that a monitor got: by replica, and by turn.
type called struct {
	mu             sync.Mutex
	replica, turns map[string]int
}

func (c *called) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.replica[r.Header.Get("Lockstep-Replica")]++
	c.turns[r.Header.Get("Idempotency-Key")]++
}

func (c *called) by(replica string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.replica[replica]
}

// Three replicas on one database call a monitor in turn. When one has left, the others have its turns.
func TestThreeReplicasPing(t *testing.T) {
	t.Parallel()
	monitor := &called{replica: map[string]int{}, turns: map[string]int{}}
	server := httptest.NewServer(monitor)
	defer server.Close()
	h, err := httphandler.New(httphandler.Request{Method: http.MethodGet, URL: server.URL + "/secret", SecretPath: true})
	if err != nil {
		t.Fatal(err)
	}
	db := sqlite(t)
	set := jobs.Set{Name: "prod", Ping: jobs.Ping{Handler: h, Every: time.Second}, Pools: map[string]jobs.Pool{"p": {Handler: &fails{}}}}
	start(t, db.open(t), nil, set, scheduler.Options{ID: "a"})
	b := start(t, db.open(t), nil, set, scheduler.Options{ID: "b"})
	start(t, db.open(t), nil, set, scheduler.Options{ID: "c"})
	await.Until(t, "each has called", func() bool { return monitor.by("a") > 0 && monitor.by("b") > 0 && monitor.by("c") > 0 })
	b.drain()
	before, a, c := monitor.by("b"), monitor.by("a"), monitor.by("c")
	await.Until(t, "the others go on", func() bool { return monitor.by("a") > a+3 && monitor.by("c") > c+3 })
	if n := monitor.by("b"); n != before {
		t.Errorf("the one that left called %d times", n-before)
	}
	monitor.mu.Lock()
	defer monitor.mu.Unlock()
	twice := 0
	for _, n := range monitor.turns {
		if n > 1 {
			twice++
		}
	}
	if twice > len(monitor.turns)/2 {
		t.Errorf("%d of %d turns had several calls", twice, len(monitor.turns))
	}
}
