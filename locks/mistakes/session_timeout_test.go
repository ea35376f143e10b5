package mistakes

import (
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/zklock"
	"github.com/lockstep-scheduler/lockstep/test/await"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// The mistake: an ephemeral node is the lock, and its holder looks at it once, when it gets it. It is cut off from the server
// for longer than its session, the node is gone, the next one has the lock: and the first goes on, since nobody told it.
//
// Here a holder stops trusting its lease before its session can end at the server, without a call. And for one that is stopped
// between its last look and its write there is the token: what is written to refuses it.
func TestSessionTimeoutWithTwoHolders(t *testing.T) {
	t.Parallel()
	const ttl = 3 * time.Second
	server := servers.ZooKeeper(t)
	node := "/naive-" + rand.Text()
	connect := func(addr string) *zk.Conn {
		t.Helper()
		conn, _, err := zk.Connect([]string{addr}, ttl, zk.WithLogger(silent{}))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(conn.Close)
		return conn
	}
	type holder struct {
		conn  *zk.Conn
		name  string
		holds bool
	}
	acquire := func(h *holder) bool {
		_, err := h.conn.Create(node, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
		if err != nil && !errors.Is(err, zk.ErrNodeExists) {
			t.Fatal(err)
		}
		h.holds = err == nil
		return h.holds
	}
	namespace := rand.Text()
	way := newLink(t, server, nil)
	naiveA, naiveB := &holder{conn: connect(way.addr), name: "a"}, &holder{conn: connect(server), name: "b"}
	if !acquire(naiveA) || acquire(naiveB) {
		t.Fatal("the node does not exclude")
	}
	a, b := locker(t, zklock.New([]string{way.addr}, zklock.Options{}), namespace, ttl), locker(t, onZooKeeper(t), namespace, quiet)
	first := get(t, a, "k")
	busy(t, b, "k")

	way.cut()
	second := get(t, b, "k") // waits for the end of a's session
	if first.Check() == nil {
		t.Error("two trust their leases")
	}
	var r register
	if !r.write(second.Token(), "b") || r.write(first.Token(), "a, which looked before it was stopped") {
		t.Errorf("the register has %q", r.value)
	}
	if !errors.Is(first.Check(), locks.ErrLost) {
		t.Errorf("a is told %v, want ErrLost", first.Check())
	}

	await.Until(t, "b gets the node while a still works", func() bool { return acquire(naiveB) })
	value := ""
	for _, h := range []*holder{naiveB, naiveA} {
		if h.holds {
			value = h.name
		}
	}
	if value != "a" {
		t.Error("a has learned of its loss: this test shows nothing")
	}
}
