package zklock

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/lockstest"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// Many keys that were held, waited for and shared once leave no nodes, when their sessions go on and when they end. The
// server removes idle containers once a minute; here it looks more often. LOCKSTEP_TEST_KEYS sets how many keys.
func TestManyKeysLeaveNothing(t *testing.T) { // it needs the processors for itself
	keys := 20_000
	if n, err := strconv.Atoi(os.Getenv("LOCKSTEP_TEST_KEYS")); err == nil {
		keys = n
	}
	srv := servers.NewZooKeeper(t, "znode.container.checkIntervalMs=1000", "znode.container.maxPerMinute=60000000")
	op := operator(t, srv.Addr)
	s, gone := openFor(t, srv.Addr, "residue", 60*time.Second), openFor(t, srv.Addr, "residue", 60*time.Second)
	const batch = 500
	for first := 0; first < keys; first += batch {
		who := s
		if first%(2*batch) > 0 {
			who = gone
		}
		var wants []driver.Want
		for i := range batch {
			wants = append(wants, driver.Want{Key: fmt.Sprintf("key-%07d", first+i)})
		}
		results, err := who.TryAcquire(t.Context(), fmt.Sprint(first), wants)
		if err != nil {
			t.Fatal(err)
		}
		var held []driver.Held
		for i, r := range results {
			held = append(held, driver.Held{Key: wants[i].Key, Token: r.Token})
		}
		if err := who.Release(t.Context(), held); err != nil {
			t.Fatal(err)
		}
		evicted(t, s, false)
		evicted(t, gone, false)
	}
	left := lockstest.Grant(t, gone, "held")
	queuesUp(t, gone, driver.Want{Key: left.Key})
	if r, err := gone.TryAcquire(t.Context(), "shared", []driver.Want{{Key: "shared", Shared: true}}); err != nil || r[0].Token == 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	if err := gone.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(5 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
		evicted(t, s, false)
		nodes := count(t, op, "/lockstep")
		if nodes == 7 { // the root, the namespace, its four parents, and the node of the session
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d nodes are left", nodes)
		}
	}
	if n := len(s.book.holdings) + len(s.book.held); n > 0 {
		t.Errorf("the session remembers %d holdings", n)
	}
}

// count counts a node and all below it.
func count(t *testing.T, op *zk.Conn, path string) int {
	children, _, err := op.Children(path)
	if err != nil {
		return 0 // it is gone
	}
	n := 1
	if len(children) > 100 {
		return n + len(children)
	}
	for _, name := range children {
		n += count(t, op, path+"/"+name)
	}
	return n
}
