package mistakes

import (
	"bufio"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/zklock"
	"github.com/lockstep-scheduler/lockstep/test/await"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// The mistake: all who wait watch the parent of the queue. One release wakes all of them, each lists the queue, and one of them
// goes on: n waiters cost n·(n+1)/2 wake-ups and as many lists.
//
// Here each waits for the one before it: a release wakes one, which may have been woken once before, when the one before it got the
// lock.
func TestParentWatch(t *testing.T) {
	t.Parallel()
	const waiters = 10
	srv := servers.NewZooKeeper(t)

	before := fired(t, srv.Addr)
	root := "/naive-" + rand.Text()
	var conns []*zk.Conn
	var nodes []string
	for range waiters {
		conn, _, err := zk.Connect([]string{srv.Addr}, quiet, zk.WithLogger(silent{}))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(conn.Close)
		conns = append(conns, conn)
		if len(conns) == 1 {
			if _, err := conn.Create(root, nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
				t.Fatal(err)
			}
		}
		node, err := conn.Create(root+"/n-", nil, zk.FlagEphemeralSequential, zk.WorldACL(zk.PermAll))
		if err != nil {
			t.Fatal(err)
		}
		nodes = append(nodes, node)
	}
	for i := range nodes { // the first has the lock; the others watch, are woken by its release, list, and watch again
		var events []<-chan zk.Event
		for _, conn := range conns[i+1:] {
			_, _, event, err := conn.ChildrenW(root)
			if err != nil {
				t.Fatal(err)
			}
			events = append(events, event)
		}
		if err := conns[i].Delete(nodes[i], -1); err != nil {
			t.Fatal(err)
		}
		for _, event := range events {
			<-event
		}
	}
	naive := fired(t, srv.Addr) - before
	if naive < waiters*(waiters-1)/2 {
		t.Errorf("%d wake-ups for %d hand-overs: this test shows nothing", naive, waiters-1)
	}

	before = fired(t, srv.Addr)
	namespace := rand.Text()
	holder := locker(t, zklock.New([]string{srv.Addr}, zklock.Options{}), namespace, quiet)
	lease := get(t, holder, "k")
	granted := make(chan *locks.Lease)
	for range waiters - 1 {
		l := locker(t, zklock.New([]string{srv.Addr}, zklock.Options{}), namespace, quiet)
		go func() {
			leases, err := l.Acquire(t.Context(), locks.Request{Key: "k"})
			if err != nil {
				t.Error(err)
				close(granted)
				return
			}
			granted <- leases[0]
		}()
	}
	await.Until(t, "all wait", func() bool {
		places := 0
		for info, err := range holder.Inspect(t.Context(), "user/k") {
			if err != nil {
				t.Fatal(err)
			}
			places = max(places, info.Place)
		}
		return places == waiters-1
	})
	for range waiters - 1 {
		if err := lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if lease = <-granted; lease == nil {
			t.FailNow()
		}
	}
	if ours := fired(t, srv.Addr) - before; ours > 2*(waiters-1) {
		t.Errorf("%d wake-ups for %d hand-overs; the naive form has %d", ours, waiters-1, naive)
	}
}

// fired is how many watches the server has fired since its start.
func fired(t *testing.T, addr string) (sum int) {
	t.Helper()
	conn, err := net.DialTimeout("tcp", addr, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "mntr"); err != nil {
		t.Fatal(err)
	}
	var seen []string
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), "\t")
		if slices.Contains([]string{
			"zk_sum_node_deleted_watch_count", "zk_sum_node_children_watch_count", "zk_sum_node_changed_watch_count", "zk_sum_node_created_watch_count",
		}, name) {
			n, err := strconv.Atoi(value)
			if err != nil {
				t.Fatal(err)
			}
			sum += n
			seen = append(seen, name)
		}
	}
	if len(seen) != 4 {
		t.Fatal(fmt.Sprint("the server counts only ", seen))
	}
	return sum
}
