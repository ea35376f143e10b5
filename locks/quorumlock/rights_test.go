package quorumlock

import (
	"os"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/lockstest"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

// leastRights stands in docs/backends.md.
const leastRights = "resetkeys ~{lockstep:* -@all +evalsha +eval +script|load +script|exists +info +time +del " +
	"+hget +hset +hmget +hvals +hdel +hexists +hincrby +zadd +zscore +zcard +zrem +zrangebylex +zrangebyscore +zrevrange +zremrangebyscore"

// A user with the least rights has all that it needs, also after lost data.
func TestRights(t *testing.T) {
	t.Parallel()
	if text, err := os.ReadFile("../../docs/backends.md"); err != nil || !strings.Contains(string(text), leastRights) {
		t.Errorf("docs/backends.md lacks %s: %v", leastRights, err)
	}
	group := start(t, 3)
	users := func(rules string) (clients []redis.UniversalClient) {
		for _, srv := range group {
			admin := client(t, srv.Addr, nil)
			args := []any{"ACL", "SETUSER", "lockstep", "reset", "on", ">limited"}
			for rule := range strings.FieldsSeq(rules) {
				args = append(args, rule)
			}
			if err := admin.Do(t.Context(), args...).Err(); err != nil {
				t.Fatal(err)
			}
			if err := admin.FlushAll(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			rdb := redis.NewClient(&redis.Options{Addr: srv.Addr, Username: "lockstep", Password: "limited", MaxRetries: -1, DialerRetries: 1})
			t.Cleanup(func() { _ = rdb.Close() })
			clients = append(clients, rdb)
		}
		return clients
	}
	d := New(users(leastRights), quick)
	if err := d.Check(t.Context()); err != nil {
		t.Error(err)
	}
	a, b := open(t, d), open(t, d)
	held := take(t, a, "a")
	if r, err := ask(t, b, driver.Want{Key: "a"}); err != nil || r.Holder == nil {
		t.Errorf("busy: %+v, %v", r, err)
	}
	other := take(t, b, "b")
	lockstest.Holds(t, a, held, true)
	if infos, err := b.List(t.Context(), "", "", 9); err != nil || len(infos) != 2 {
		t.Errorf("list: %+v, %v", infos, err)
	}
	if ok, err := b.Evict(t.Context(), "a", held.Token); err != nil || !ok {
		t.Errorf("evict: %t, %v", ok, err)
	}
	renew(t, a)
	for _, srv := range group {
		if err := client(t, srv.Addr, nil).FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	await.Until(t, "all is brought back", func() bool {
		renew(t, b)
		return on(t, group[0], "b")+on(t, group[1], "b")+on(t, group[2], "b") == 3
	})
	free(t, b, other)
	if err := b.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := New(users("~* +@all -evalsha -eval"), quick).Open(t.Context(), driver.Open{Namespace: "n", TTL: ttl}); err == nil || !strings.Contains(err.Error(), "may not do what locks need") {
		t.Errorf("open without a right: %v", err)
	}
}
