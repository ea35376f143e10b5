package bench

import (
	"fmt"
	"io"
	"net"
	"regexp"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/memlock"
	"github.com/lockstep-scheduler/lockstep/locks/quorumlock"
)

// BenchmarkRenewal holds many leases in one Locker: what the renewals of some intervals cost, and how long Inspect takes. Requests
// are what the server counted: scripts, packets of the protocol with its pings, statements, more than those of the same Locker
// without leases by no more than what verifies a sample. The processor time is that of this process, for all that it does
// meanwhile, and of Redis, less that of the same Locker without leases.
func BenchmarkRenewal(b *testing.B) {
	t := newTable(b, fmt.Sprintf("%d leases in one Locker", sized().leases), "", "renewals in an interval", "requests in an interval",
		"without leases", "% of a core, this process (min – max)", "% of a core, Redis", "Inspect of all (min – max)")
	names := chosen(b, "**redislock**, Lockstep", quorumName, "**zklock**, Lockstep", "**sqllock lease** on MariaDB, Lockstep", "**sqllock** on SQLite, Lockstep", "")
	n := len(names)
	renewals, requests, without := make([]samples, n), make([]samples, n), make([]samples, n)
	own, redis, inspect := make([]samples, n), make([]samples, n), make([]samples, n)
	takeTurns(b, n, func(r *round, i int) {
		seen := &renewing{}
		drv, asked := renewed(r, names[i])
		l := lockerWith(r, drv, fmt.Sprintf("renewal-%d", time.Now().UnixNano()), seen)
		interval := sized().lockTTL / 3
		idle := costs(r, seen, asked, 2*interval)
		leases := takeAll(r, l, names[i])
		busy := costs(r, seen, asked, 2*interval)
		renewals[i] = append(renewals[i], busy.renewals/2)
		requests[i], without[i] = append(requests[i], busy.requests/2), append(without[i], idle.requests/2)
		own[i] = append(own[i], 100*(busy.own-idle.own)/(2*interval).Seconds())
		redis[i] = append(redis[i], 100*(busy.redis-idle.redis)/(2*interval).Seconds())
		inspect[i] = append(inspect[i], inspectAll(r, l, names[i]))
		if err := l.Release(r.Context(), leases...); err != nil {
			r.Fatal(names[i], err)
		}
	})
	for i, name := range names {
		core, counted, idle := "–", "–", "–"
		if name == "**redislock**, Lockstep" {
			core = redis[i].spread(count)
		}
		if requests[i].median() > 0 {
			counted, idle = count(requests[i].median()), count(without[i].median())
		}
		t.add(entry{way: name}.name(), count(renewals[i].median()), counted, idle, own[i].spread(count), core, inspect[i].spread(lasting))
	}
	t.print()
}

const quorumName = "**quorumlock**, Lockstep"

// renewed is a driver, and what reads how many requests its server has counted; 0 where nothing counts.
func renewed(tb testing.TB, name string) (driver.Driver, func() float64) {
	tb.Helper()
	switch name {
	case "":
		return memlock.New(), func() float64 { return 0 }
	case quorumName:
		clients := fiveServers(tb)
		return quorumlock.New(clients, quorumlock.Options{NoGracePeriod: true}), func() (n float64) {
			for _, c := range clients {
				n += scriptsRun(tb, c)
			}
			return n
		}
	}
	w := wayOf(tb, name)
	addr := w.address(tb)
	drv := w.ours(tb, addr)
	switch name {
	case "**redislock**, Lockstep":
		rdb := redisClient(tb, addr)
		return drv, func() float64 { return scriptsRun(tb, rdb) }
	case "**zklock**, Lockstep":
		return drv, func() float64 { return packets(tb, addr) }
	case "**sqllock lease** on MariaDB, Lockstep":
		db, before := openMySQL(tb, addr), 0.0
		return drv, func() float64 {
			before++ // the questions asked here
			return status(tb, db, "Questions") - before
		}
	}
	return drv, func() float64 { return 0 }
}

// packets is how many ZooKeeper has received of its clients.
func packets(tb testing.TB, addr string) float64 {
	tb.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		tb.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "mntr"); err != nil {
		tb.Fatal(err)
	}
	said, err := io.ReadAll(conn)
	found := received.FindSubmatch(said)
	if err != nil || found == nil {
		tb.Fatalf("mntr: %q, %v", said, err)
	}
	n, _ := strconv.ParseFloat(string(found[1]), 64)
	return n
}

var received = regexp.MustCompile(`(?m)^zk_packets_received\s+(\d+)`)

func takeAll(tb testing.TB, l *locks.Locker, name string) (leases []*locks.Lease) {
	tb.Helper()
	for first := 0; first < sized().leases; first += 500 {
		var requests []locks.Request
		for k := first; k < min(first+500, sized().leases); k++ {
			requests = append(requests, locks.Request{Key: fmt.Sprintf("user/%06d", k)})
		}
		got, err := l.Acquire(tb.Context(), requests...)
		if err != nil {
			tb.Fatal(name, err)
		}
		leases = append(leases, got...)
	}
	return leases
}

// inspectAll returns how many seconds a listing of all leases takes.
func inspectAll(tb testing.TB, l *locks.Locker, name string) float64 {
	tb.Helper()
	began, found := time.Now(), 0
	for _, err := range l.Inspect(tb.Context(), "user/") {
		if err != nil {
			tb.Fatal(name, err)
		}
		found++
	}
	if found != sized().leases {
		tb.Errorf("%s: Inspect found %d of %d leases", name, found, sized().leases)
	}
	return time.Since(began).Seconds()
}

// renewing counts renewals.
type renewing struct{ n atomic.Int64 }

func (o *renewing) Asked(string, locks.Asked)            {}
func (o *renewing) Renewed(string, time.Duration, error) { o.n.Add(1) }
func (o *renewing) Lost(string, int, error)              {}
func (o *renewing) Waiting(string)                       {}
func (o *renewing) Waited(string, time.Duration, bool)   {}
func (o *renewing) Held(string)                          {}
func (o *renewing) Freed(string, time.Duration)          {}

// cost is what was used in some time.
type cost struct{ renewals, requests, own, redis float64 }

func costs(tb testing.TB, o *renewing, asked func() float64, during time.Duration) cost {
	tb.Helper()
	rdb := newRedis(tb)
	read := func() cost {
		c := cost{renewals: float64(o.n.Load()), requests: asked(), own: worked(tb)}
		info, err := rdb.Info(tb.Context(), "cpu").Result()
		if err != nil {
			tb.Fatal(err)
		}
		for _, m := range processor.FindAllStringSubmatch(info, -1) {
			n, _ := strconv.ParseFloat(m[1], 64)
			c.redis += n
		}
		return c
	}
	before := read()
	time.Sleep(during)
	after := read()
	return cost{after.renewals - before.renewals, after.requests - before.requests, after.own - before.own, after.redis - before.redis}
}

var processor = regexp.MustCompile(`(?m)^used_cpu_(?:user|sys):([\d.]+)`)
