package bench

import (
	"cmp"
	"flag"
	"os"
	"regexp"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs/exechandler"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

func TestMain(m *testing.M) {
	if exechandler.Warden() { // commands are started by a process of their own
		return
	}
	// As scheduler serve does while little is in use; the other programs get it, too.
	debug.SetGCPercent(400)
	_ = os.Setenv("GOGC", "400")
	// As much memory as PostgreSQL has, and a log that holds a whole round, as there.
	servers.MySQLArgs = []string{"--innodb-buffer-pool-size=256M", "--innodb-log-file-size=1G"}
	code := servers.Main(m)
	if rivalsDir != "" {
		_ = os.RemoveAll(rivalsDir)
	}
	os.Exit(code)
}

var only = flag.String("only", "", "measure only those whose name matches this regular expression: where many wait for a lock, stores where triggers are measured, and of tasks, as in \"SQLite, 16 replicas\"")

// wanted is what -only leaves.
func wanted(tb testing.TB) *regexp.Regexp {
	tb.Helper()
	is, err := regexp.Compile(*only)
	if err != nil {
		tb.Fatal("-only:", err)
	}
	return is
}

// chosen are the names that -only leaves.
func chosen(tb testing.TB, names ...string) (left []string) {
	tb.Helper()
	only := wanted(tb)
	for _, name := range names {
		if only.MatchString(entry{way: name}.name()) {
			left = append(left, name)
		}
	}
	return left
}

// size is how much is measured.
type size struct {
	rounds   int
	locking  time.Duration // one contestant in one round
	lockTTL  time.Duration // a Redis that has just started grants nothing for so long
	drain    int           // tasks that are drained: so many that it lasts for seconds
	tasks    int           // that are enqueued, or drained with limits
	ended    int           // tasks beside which others are measured
	pending  int           // and such that are not
	commands int           // tasks that run one
	beside   int           // tasks beside which jobs are due
	singles  int           // that each producer enqueues one by one
	due      int           // jobs, in one second
	lead     time.Duration // from the start of the replicas to that second
	yamlJobs int           // of a file
	spread   int           // jobs over a minute
	steady   int           // jobs each 5 s
	lasts    time.Duration // of jobs that are due all the time
	rest     time.Duration // of what is measured without anything beside

	clients   int           // at once
	crowd     int           // of one key
	fair      time.Duration // of one contest
	handOvers int
	pickups   int
	leases    int
}

var (
	rounds = flag.Int("rounds", 0, "how often each contestant is measured; 0: as the form says")
	lasts  = flag.Duration("lasts", 0, "for how long jobs are due all the time, at least 5s, to the second; 0: as the form says")
)

func sized() size {
	s := bySize()
	s.rounds, s.lasts = cmp.Or(*rounds, s.rounds), cmp.Or(lasts.Truncate(time.Second), s.lasts)
	return s
}

func bySize() size {
	if testing.Short() {
		return size{
			rounds: 2, locking: 50 * time.Millisecond, lockTTL: 3 * time.Second, tasks: 2_000, drain: 2_000, ended: 20_000, pending: 2_000, commands: 100, beside: 40_000, singles: 50,
			due: 500, lead: 6 * time.Second, yamlJobs: 2_000, rest: time.Second, spread: 2_000, steady: 200, lasts: 5 * time.Second,
			clients: 8, crowd: 40, fair: 500 * time.Millisecond, handOvers: 10, pickups: 10, leases: 200,
		}
	}
	return size{
		rounds: 5, locking: time.Second, lockTTL: 10 * time.Second, tasks: 50_000, drain: 200_000, ended: 10_000_000, pending: 1_000_000, commands: 10_000, beside: 200_000, singles: 1_000,
		due: 10_000, lead: 20 * time.Second, yamlJobs: 100_000, rest: 10 * time.Second, spread: 100_000, steady: 4_000, lasts: 30 * time.Second,
		clients: 64, crowd: 1_000, fair: 10 * time.Second, handOvers: 200, pickups: 100, leases: 10_000,
	}
}

// round is one turn of one contestant: what it starts ends with it, not with the whole benchmark.
type round struct {
	testing.TB
	ends []func()
}

func (r *round) Cleanup(f func()) { r.ends = append(r.ends, f) }

func (r *round) TempDir() string {
	dir, err := os.MkdirTemp(r.TB.TempDir(), "")
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func (r *round) end() {
	for _, f := range slices.Backward(r.ends) {
		f()
	}
}

// takeTurns runs each of n contestants once per round, and begins each round with another one: other load of
// the machine affects all of them alike.
func takeTurns(b *testing.B, n int, turn func(r *round, contestant int)) {
	b.Helper()
	b.ReportMetric(0, "ns/op") // the time of the whole is meaningless
	for k := range sized().rounds {
		for i := range n {
			r := &round{TB: b}
			func() {
				defer r.end()
				turn(r, (i+k)%n)
			}()
		}
	}
}
