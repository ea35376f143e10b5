package bench

import (
	"fmt"
	"regexp"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/memlock"
)

// BenchmarkRenewal holds many leases in one Locker: what the renewals of some intervals cost, and how long Inspect takes. The
// processor time is that of this process, for all that it does meanwhile, and of Redis, less that of the same Locker without leases.
func BenchmarkRenewal(b *testing.B) {
	t := newTable(b, fmt.Sprintf("%d leases in one Locker", sized().leases),
		"", "renewals in an interval", "calls of Redis in an interval", "% of a core, this process (min – max)", "% of a core, Redis", "Inspect of all (min – max)")
	names := chosen(b, "**redislock**, Lockstep", "**zklock**, Lockstep", "**sqllock lease** on MariaDB, Lockstep", "**sqllock** on SQLite, Lockstep", "")
	n := len(names)
	renewals, calls, own, redis, inspect := make([]samples, n), make([]samples, n), make([]samples, n), make([]samples, n), make([]samples, n)
	takeTurns(b, n, func(r *round, i int) {
		seen := &renewing{}
		var drv driver.Driver = memlock.New()
		if names[i] != "" {
			w := wayOf(r, names[i])
			drv = w.ours(r, w.address(r))
		}
		l := lockerWith(r, drv, fmt.Sprintf("renewal-%d", time.Now().UnixNano()), seen)
		interval := sized().lockTTL / 3
		idle := costs(r, seen, 2*interval)
		var leases []*locks.Lease
		for first := 0; first < sized().leases; first += 500 {
			var requests []locks.Request
			for k := first; k < min(first+500, sized().leases); k++ {
				requests = append(requests, locks.Request{Key: fmt.Sprintf("user/%06d", k)})
			}
			got, err := l.Acquire(r.Context(), requests...)
			if err != nil {
				r.Fatal(names[i], err)
			}
			leases = append(leases, got...)
		}
		busy := costs(r, seen, 2*interval)
		renewals[i] = append(renewals[i], busy.renewals/2)
		calls[i] = append(calls[i], busy.calls/2)
		own[i] = append(own[i], 100*(busy.own-idle.own)/(2*interval).Seconds())
		redis[i] = append(redis[i], 100*(busy.redis-idle.redis)/(2*interval).Seconds())
		began, found := time.Now(), 0
		for _, err := range l.Inspect(r.Context(), "user/") {
			if err != nil {
				r.Fatal(names[i], err)
			}
			found++
		}
		inspect[i] = append(inspect[i], time.Since(began).Seconds())
		if found != sized().leases {
			r.Errorf("%s: Inspect found %d of %d leases", names[i], found, sized().leases)
		}
		if err := l.Release(r.Context(), leases...); err != nil {
			r.Fatal(names[i], err)
		}
	})
	for i, name := range names {
		asked, core := "–", "–"
		if name == "**redislock**, Lockstep" {
			asked, core = count(calls[i].median()), redis[i].spread(count)
		}
		t.add(entry{way: name}.name(), count(renewals[i].median()), asked, own[i].spread(count), core, inspect[i].spread(lasting))
	}
	t.print()
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
type cost struct{ renewals, calls, own, redis float64 }

func costs(tb testing.TB, o *renewing, during time.Duration) cost {
	tb.Helper()
	rdb := newRedis(tb)
	read := func() cost {
		var usage syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
			tb.Fatal(err)
		}
		c := cost{renewals: float64(o.n.Load()), own: time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds()}
		info, err := rdb.Info(tb.Context(), "commandstats", "cpu").Result()
		if err != nil {
			tb.Fatal(err)
		}
		for _, m := range scripts.FindAllStringSubmatch(info, -1) {
			n, _ := strconv.ParseFloat(m[1], 64)
			c.calls += n
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
	return cost{after.renewals - before.renewals, after.calls - before.calls, after.own - before.own, after.redis - before.redis}
}

var processor = regexp.MustCompile(`(?m)^used_cpu_(?:user|sys):([\d.]+)`)
