package quorumlock

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// Who finds a key busy learns how long its holder can have it without a renewal: until the last server of a majority expires it.
func TestBusyForHowLong(t *testing.T) {
	t.Parallel()
	group := start(t, 3)
	d := wire(t, group, quick)
	begin := func() *session {
		s, err := d.Open(t.Context(), driver.Open{Namespace: "n", TTL: time.Minute, Owner: "owner"})
		if err != nil {
			t.Fatal(err)
		}
		return s.(*session)
	}
	a, b := begin(), begin()
	const some, half = 20 * time.Second, 30 * time.Second
	busy := func(key string, least, most time.Duration) {
		t.Helper()
		r, err := ask(t, b, driver.Want{Key: key})
		if err != nil || r.Holder == nil || r.Holder.Session != a.ID() || r.Holder.Remaining <= least || r.Holder.Remaining > most {
			t.Errorf("%s: %+v, %v; want it busy for %v to %v", key, r.Holder, err, least, most)
		}
		if infos, err := b.List(t.Context(), key, "", 1); err != nil || len(infos) != 1 || infos[0].Remaining <= least || infos[0].Remaining > most {
			t.Errorf("%s, listed: %+v, %v; want %v to %v", key, infos, err, least, most)
		}
	}
	for _, w := range []driver.Want{{Key: "alone"}, {Key: "together", Shared: true}} {
		if r, err := ask(t, a, w); err != nil || r.Token == 0 {
			t.Fatalf("%+v, %v", r, err)
		}
		busy(w.Key, half, a.TTL())
	}
	for i, srv := range group { // one server after the other that the last renewals did not reach
		soon := redis.Z{Member: a.id, Score: float64(time.Now().Add(some).UnixMicro())}
		if err := client(t, srv.Addr, nil).ZAdd(t.Context(), a.keys[1], soon).Err(); err != nil {
			t.Fatal(err)
		}
		switch i {
		case 0:
			for range 10 { // each time those that answer first decide
				busy("alone", half, a.TTL())
			}
		case 2:
			busy("alone", 0, some)
		}
	}
}
