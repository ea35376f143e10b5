package quorumlock

import (
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/lockstest"
	"github.com/lockstep-scheduler/lockstep/test/await"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// quick is for servers that a test has just started.
var quick = Options{NodeTimeout: time.Second, NoGracePeriod: true}

const ttl = 3 * time.Second

func open(t *testing.T, d driver.Driver) *session {
	t.Helper()
	s, err := d.Open(t.Context(), driver.Open{Namespace: "n", TTL: ttl, Owner: "owner"})
	if err != nil {
		t.Fatal(err)
	}
	return s.(*session)
}

// ask tallies once for a key.
func ask(t *testing.T, s driver.Session, w driver.Want) (driver.Result, error) {
	t.Helper()
	return askAs(t, s, rand.Text(), w)
}

// askAs is ask under an id, for those that go on after an unknown outcome.
func askAs(t *testing.T, s driver.Session, id string, w driver.Want) (driver.Result, error) {
	t.Helper()
	results, err := s.TryAcquire(t.Context(), id, []driver.Want{w})
	if err != nil {
		return driver.Result{}, err
	}
	return results[0], results[0].Err
}

// take gets a key that must be free.
func take(t *testing.T, s driver.Session, key string) driver.Held {
	t.Helper()
	r, err := ask(t, s, driver.Want{Key: key})
	if err != nil || r.Token == 0 {
		t.Fatalf("%s: %+v, %v, want it granted", key, r, err)
	}
	return driver.Held{Key: key, Token: r.Token}
}

// within waits until a key is granted.
func within(t *testing.T, s driver.Session, key string) (held driver.Held) {
	t.Helper()
	id := rand.Text()
	await.Until(t, key+" is granted", func() bool {
		_ = lockstest.Renew(t.Context(), s)
		r, err := askAs(t, s, id, driver.Want{Key: key})
		held = driver.Held{Key: key, Token: r.Token}
		return err == nil && r.Token > 0
	})
	return held
}

func renew(t *testing.T, s driver.Session) {
	t.Helper()
	if err := lockstest.Renew(t.Context(), s); err != nil {
		t.Fatal(err)
	}
}

func free(t *testing.T, s driver.Session, held driver.Held) {
	t.Helper()
	if err := s.Release(t.Context(), []driver.Held{held}); err != nil {
		t.Fatal(err)
	}
}

// reaches leaves a client the servers with these indexes.
func (w *wired) reaches(servers ...int) {
	var some mask
	for _, i := range servers {
		some = some.with(i)
	}
	for i, one := range w.wires {
		if some.has(i) {
			one.Mend()
		} else {
			one.Cut()
		}
	}
}

// on counts what a server keeps of a key.
func on(t *testing.T, srv *servers.RedisServer, key string) int {
	t.Helper()
	fields, err := client(t, srv.Addr, nil).ZRange(t.Context(), keysOf("n")[4], 0, -1).Result()
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, field := range fields {
		if strings.HasPrefix(field, key+" ") {
			count++
		}
	}
	return count
}

// Readers hold a key together and exclude a writer, each by a majority.
func TestShared(t *testing.T) {
	t.Parallel()
	group := start(t, 5)
	w := []*wired{wire(t, group, quick), wire(t, group, quick), wire(t, group, quick)}
	a, b, c := open(t, w[0]), open(t, w[1]), open(t, w[2])
	w[0].reaches(0, 1, 2)
	w[1].reaches(2, 3, 4)
	reader, writer := driver.Want{Key: "a", Shared: true}, driver.Want{Key: "a"}
	first, err := ask(t, a, reader)
	second, err2 := ask(t, b, reader)
	if err != nil || err2 != nil || first.Token == 0 || second.Token <= first.Token {
		t.Fatalf("%+v, %v; %+v, %v: want both granted", first, err, second, err2)
	}
	if r, err := ask(t, c, writer); err != nil || r.Holder == nil || !r.Holder.Shared {
		t.Errorf("a writer beside readers: %+v, %v", r, err)
	}
	infos, err := c.List(t.Context(), "", "", 1)
	if err != nil || len(infos) != 2 || infos[0].Token != first.Token || infos[1].Token != second.Token {
		t.Errorf("listed %+v, %v: want both readers", infos, err)
	}
	free(t, a, driver.Held{Key: "a", Token: first.Token})
	if r, err := ask(t, c, writer); err != nil || r.Holder == nil {
		t.Errorf("a writer beside a reader: %+v, %v", r, err)
	}
	free(t, b, driver.Held{Key: "a", Token: second.Token})
	w[0].reaches(0, 1, 2, 3, 4)
	w[1].reaches(0, 1, 2, 3, 4)
	renew(t, a)
	renew(t, b)
	written := take(t, c, "a")
	if written.Token <= second.Token {
		t.Errorf("token %d after %d", written.Token, second.Token)
	}
	if r, err := ask(t, a, reader); err != nil || r.Holder == nil || r.Holder.Shared || r.Holder.Token != written.Token {
		t.Errorf("a reader beside a writer: %+v, %v", r, err)
	}
}

// A server that does not answer is not waited for, once that is known.
func TestAFrozenServer(t *testing.T) {
	t.Parallel()
	group := start(t, 5)
	s := open(t, wire(t, group, quick))
	group[2].Pause()
	defer group[2].Continue()
	began := time.Now()
	const pairs = 40
	for range pairs {
		free(t, s, take(t, s, "a"))
	}
	if each := time.Since(began) / pairs; each > quick.NodeTimeout/4 {
		t.Errorf("acquire and release take %v with one server frozen", each)
	}
	renew(t, s)
}
