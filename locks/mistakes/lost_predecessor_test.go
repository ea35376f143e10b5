package mistakes

import (
	"crypto/rand"
	"encoding/binary"
	"sync"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/lockstep-scheduler/lockstep/locks/zklock"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// The mistake: a waiter lists the queue, finds its predecessor, sets a watch on it and waits for the event. If the predecessor
// went away between the two, the watch is on a node that does not exist and never will again, since sequence numbers only grow:
// the waiter is first, and waits for ever.
//
// Here a waiter whose predecessor is gone looks again before it waits, and looks each second even if no event comes.
func TestPredecessorGoneBeforeTheWatch(t *testing.T) {
	t.Parallel()
	server := servers.ZooKeeper(t)
	conn, _, err := zk.Connect([]string{server}, quiet, zk.WithLogger(silent{}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	root := "/naive-" + rand.Text()
	create := func(path string, flags int32) string {
		t.Helper()
		name, err := conn.Create(path, nil, flags, zk.WorldACL(zk.PermAll))
		if err != nil {
			t.Fatal(err)
		}
		return name
	}
	create(root, 0)
	holder := create(root+"/n-", zk.FlagEphemeralSequential)
	create(root+"/n-", zk.FlagEphemeralSequential) // the waiter has listed both, and found its predecessor
	if err := conn.Delete(holder, -1); err != nil {
		t.Fatal(err)
	}
	_, _, event, err := conn.ExistsW(holder)
	if err != nil {
		t.Fatal(err)
	}
	if left, _, err := conn.Children(root); err != nil || len(left) != 1 {
		t.Fatalf("%v, %v; want the waiter alone", left, err)
	}
	select { // events come before the answers to later requests, as that to Children
	case e := <-event:
		t.Errorf("%v: the waiter is woken, so this test shows nothing", e)
	default:
	}

	namespace := rand.Text()
	a := locker(t, onZooKeeper(t), namespace, quiet)
	lease := get(t, a, "k")
	var once sync.Once
	way := newLink(t, server, func(request []byte) {
		if len(request) < 9 {
			return
		}
		opcode, watch := binary.BigEndian.Uint32(request[4:]), request[len(request)-1] == 1
		if (opcode == opExists || opcode == opGetData) && watch {
			once.Do(func() {
				if err := lease.Release(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
	})
	if err := get(t, locker(t, zklock.New([]string{way.addr}, zklock.Options{}), namespace, quiet), "k").Check(); err != nil {
		t.Error(err)
	}
}

// The requests of ZooKeeper's protocol that may set a watch on a node: its last byte says whether they do.
const opExists, opGetData = 3, 4
