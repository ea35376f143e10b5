package zklock

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// Who finds a key busy, or waits for it, learns how long its holder can have it without a renewal: its ttl.
func TestBusyForHowLong(t *testing.T) {
	t.Parallel()
	a, b, _, _ := between(t, "how-long")
	for _, w := range []driver.Want{{Key: "alone"}, {Key: "together", Shared: true}} {
		if got, err := a.TryAcquire(t.Context(), rand.Text(), []driver.Want{w}); err != nil || got[0].Token == 0 {
			t.Fatalf("%+v, %v", got, err)
		}
		other := driver.Want{Key: w.Key, Meta: "two\nlines"}
		tried, err := b.TryAcquire(t.Context(), rand.Text(), []driver.Want{other})
		if err != nil {
			t.Fatal(err)
		}
		p := queuesUp(t, b, other)
		looked, err := b.Look(t.Context(), []driver.Place{p})
		if err != nil {
			t.Fatal(err)
		}
		for how, h := range map[string]*driver.Info{"busy": tried[0].Holder, "queued": looked[0].Holder} {
			if h == nil || h.Session != a.ID() || h.Remaining != a.TTL() {
				t.Errorf("%s, %s: %+v, want the session %s and %v", w.Key, how, h, a.ID(), a.TTL())
			}
		}
		infos, err := b.List(t.Context(), w.Key, "", 1)
		if err != nil || len(infos) != 2 || infos[0].Remaining != a.TTL() || infos[1].Remaining != b.TTL() || infos[1].Meta != other.Meta {
			t.Errorf("%s: %+v, %v; want a holder with %v and what waits with %v", w.Key, infos, err, a.TTL(), b.TTL())
		}
	}
}

// A node of an earlier client says no ttl, and one that was made by hand may say anything.
func TestNodesWithoutATTL(t *testing.T) {
	t.Parallel()
	_, b, op, _ := between(t, "records")
	for content, want := range map[string]record{
		"id\nowner\nmeta":              {id: "id", owner: "owner", meta: "meta"},
		"id\nowner\n":                  {id: "id", owner: "owner"},
		"id\nowner\ntwo\nlines":        {id: "id", owner: "owner", meta: "two\nlines"},
		"id\nowner\n7":                 {id: "id", owner: "owner", meta: "7"},
		"id\nowner\nmeta\n-3000":       {id: "id", owner: "owner", meta: "meta\n-3000"},
		"id\nowner\ntwo\nlines\n3000":  {id: "id", owner: "owner", meta: "two\nlines", ttl: 3 * time.Second},
		"id\nowner\n\n3000":            {id: "id", owner: "owner", ttl: 3 * time.Second},
		"id":                           {id: "id"},
		"":                             {},
		"id\nowner\nm\n99999999999999": {id: "id", owner: "owner", meta: "m\n99999999999999"},
	} {
		if got := parse([]byte(content)); got != want {
			t.Errorf("%q: %+v, want %+v", content, got, want)
		}
	}
	// The node of an earlier client.
	if _, err := op.CreateContainer(b.names.lock("k"), nil, zk.FlagContainer, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	if _, err := op.Create(b.names.held("k"), []byte("theirs-1\nowner\nmeta"), zk.FlagEphemeral, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	got, err := b.TryAcquire(t.Context(), rand.Text(), []driver.Want{{Key: "k"}})
	if err != nil || got[0].Holder == nil || got[0].Holder.Owner != "owner" || got[0].Holder.Meta != "meta" || got[0].Holder.Remaining != 0 {
		t.Errorf("%+v, %v; want it busy, and nothing said of how long", got, err)
	}
}
