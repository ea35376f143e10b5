package zklock

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockstep-scheduler/lockstep/test/await"
)

// Notices leave no nodes but the last few of each session, and none after its end.
func TestNoticesLeaveNothing(t *testing.T) {
	t.Parallel()
	a, b, op, _ := between(t, "notices")
	there := func() int {
		children, _, err := op.Children(a.names.notices)
		if err != nil {
			t.Fatal(err)
		}
		return len(children)
	}
	for i := range 3 * kept {
		if err := a.Notify(t.Context(), fmt.Sprintf("pool/%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	if n := there(); n != kept {
		t.Errorf("%d nodes, want %d", n, kept)
	}
	topics, err := b.Notified(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if again, err := b.Notified(t.Context()); err != nil || again != topics {
		t.Errorf("another channel, %v", err)
	}
	// The nodes are deleted, and the one that all are below.
	deleteTree(t, op, a.names.notices)
	for _, topic := range []string{"a/b", "c%"} {
		if err := a.Notify(t.Context(), topic); err != nil {
			t.Fatal(err)
		}
		deadline := time.After(10 * time.Second)
		for got := ""; got != topic; {
			select {
			case got = <-topics:
			case <-time.After(100 * time.Millisecond):
				if err := a.Notify(t.Context(), topic); err != nil {
					t.Fatal(err)
				}
			case <-deadline:
				t.Fatalf("no notice about %s", topic)
			}
		}
	}
	for _, s := range []*session{a, b} {
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	await.Until(t, "nothing is left", func() bool { return there() == 0 })
}

// One that listens hears of what is sent while its connection is lost.
func TestNoticesOverALostConnection(t *testing.T) {
	t.Parallel()
	a, b, _, way := between(t, "notices-lost")
	topics, err := a.Notified(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	way.break_(true)
	await.Until(t, "the connection is lost", func() bool { return a.conn.State() != zk.StateHasSession })
	if err := b.Notify(t.Context(), "missed"); err != nil {
		t.Fatal(err)
	}
	way.set(false, false)
	select {
	case got := <-topics:
		if got != "missed" {
			t.Errorf("got %q", got)
		}
	case <-time.After(10 * time.Second):
		t.Error("no notice")
	}
}
