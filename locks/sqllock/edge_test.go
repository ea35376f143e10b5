package sqllock_test

import (
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/sqllock"
	"github.com/lockstep-scheduler/lockstep/test/chaos/proxy"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// edge is a way to the server of dsn that can lose single statements. It heals when the test ends.
func edge(t *testing.T, dsn string) (p *proxy.Proxy, through string) {
	t.Helper()
	c, err := mysql.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	if p, err = proxy.ListenMySQL(c.Addr); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	c.Addr = p.Addr()
	c.InterpolateParams = true // so that whole statements are seen
	return p, c.FormatDSN()
}

// A call whose COMMIT is never answered ends with its context, and leaves the way free for the next
// one, also on a handle that would wait for ever. What it did is found under its id.
func TestTheAnswerToCommitIsLost(t *testing.T) {
	t.Parallel()
	p, dsn := edge(t, servers.MySQL(t))
	s := session(t, sqllock.New(open(t, "mysql", dsn), sqllock.MySQL, sqllock.Options{}), time.Minute)
	p.Judge(func(c proxy.Command) proxy.Verdict {
		if c.Is("COMMIT") {
			return proxy.SwallowReply
		}
		return proxy.Pass
	})
	ctx, cancel := contextFor(t, 500*time.Millisecond)
	defer cancel()
	type answer struct {
		got []driver.Result
		err error
	}
	answers := make(chan answer, 1)
	go func() {
		got, err := s.TryAcquire(ctx, "1", []driver.Want{{Key: "k"}})
		answers <- answer{got, err}
	}()
	select {
	case a := <-answers:
		if a.err == nil {
			t.Fatalf("%+v: want an error, since nobody knows", a.got)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the call goes on long after its context has ended")
	}
	p.Judge(nil)
	ctx, cancel = contextFor(t, 10*time.Second)
	defer cancel()
	got, err := s.TryAcquire(ctx, "1", []driver.Want{{Key: "k"}})
	if err != nil || got[0].Token == 0 {
		t.Errorf("%+v, %v: want what was granted", got, err)
	}
	if got, err := s.TryAcquire(ctx, "2", []driver.Want{{Key: "l"}}); err != nil || got[0].Token == 0 {
		t.Errorf("%+v, %v: want the next key", got, err)
	}
}
