package scheduler

import (
	"log/slog"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/internal/process"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/memlock"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
)

// measured is some metrics.
type measured struct {
	unmeasured
	n int
}

// An option that is zero has the default that its field names; any other value stays.
func TestDefaultsOfOptions(t *testing.T) {
	const hour, days = time.Hour, 24 * time.Hour
	got, err := Options{}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`^` + regexp.QuoteMeta(host) + `-[0-9a-f]{8}$`).MatchString(got.ID) {
		t.Errorf("the id is %q", got.ID)
	}
	if again, err := (Options{}).withDefaults(); err != nil || again.ID == got.ID {
		t.Errorf("two replicas are %q and %q: %v", got.ID, again.ID, err)
	}
	for what, c := range map[string]struct{ given, want Options }{
		"nothing is given": {Options{ID: "a"}, Options{
			ID: "a", Workers: 64, SessionTTL: 10 * time.Second, DrainTimeout: 25 * time.Second, StopGrace: 10 * time.Second, MaxClockSkew: 2 * time.Second,
			WhenDown: DownStore, OutputLimit: 64 << 10, Logger: slog.New(slog.DiscardHandler), Observer: unmeasured{},
			Retention: jobs.Retention{Triggers: 30 * days, Succeeded: 2 * days, Failed: 14 * days, Output: 7 * days},
		}},
		"nil metrics are none": {Options{ID: "c", Observer: (*measured)(nil)}, Options{
			ID: "c", Workers: 64, SessionTTL: 10 * time.Second, DrainTimeout: 25 * time.Second, StopGrace: 10 * time.Second, MaxClockSkew: 2 * time.Second,
			WhenDown: DownStore, OutputLimit: 64 << 10, Logger: slog.New(slog.DiscardHandler), Observer: unmeasured{},
			Retention: jobs.Retention{Triggers: 30 * days, Succeeded: 2 * days, Failed: 14 * days, Output: 7 * days},
		}},
		"all is given": {
			Options{
				ID: "b", Workers: 1, SessionTTL: hour, DrainTimeout: 2 * hour, StopGrace: 3 * hour, MaxClockSkew: 4 * hour, WhenDown: DownWait, OutputLimit: 5,
				Logger: slog.Default(), Observer: &measured{n: 1}, Retention: jobs.Retention{Triggers: 6, Succeeded: 7, Failed: 8, Output: 9}, LockService: "mine",
			},
			Options{
				ID: "b", Workers: 1, SessionTTL: hour, DrainTimeout: 2 * hour, StopGrace: 3 * hour, MaxClockSkew: 4 * hour, WhenDown: DownWait, OutputLimit: 5,
				Logger: slog.Default(), Observer: &measured{n: 1}, Retention: jobs.Retention{Triggers: 6, Succeeded: 7, Failed: 8, Output: 9}, LockService: "mine",
			},
		},
	} {
		got, err := c.given.withDefaults()
		same := cmp.Comparer(func(a, b *slog.Logger) bool { return a.Handler() == b.Handler() })
		if diff := cmp.Diff(c.want, got, same, cmp.AllowUnexported(measured{})); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", what, err, diff)
		}
	}
}

// Locks that exclude within one process only are named with that process, and its machine.
func TestLocksInMemoryAreNamedWithTheirProcess(t *testing.T) {
	self := process.Self()
	machine := self.Boot
	if machine == "" {
		machine, _ = os.Hostname()
	}
	got := lockService(replicatest.LockerOf(t, memlock.New()), nil, "prod")
	m := regexp.MustCompile(`^memory of process (\d+), started at (\d+), machine (.+)$`).FindStringSubmatch(got)
	if m == nil || m[3] != machine {
		t.Errorf("it is %q, on machine %q", got, machine)
	}
}

// shared is a lock service that all processes share.
type shared struct{ noLocks }

func (shared) Caps() locks.Caps { return locks.Caps{Name: "redis"} }

// Other locks are named by their backend, the same in each process.
func TestLocksThatAreSharedAreNamedByTheirBackend(t *testing.T) {
	if got := lockService(shared{}, nil, "prod"); got != "redis" {
		t.Errorf("it is %q", got)
	}
}

// keysIn is a lock service of jobs with that backend.
type keysIn struct {
	weak
	backend string
}

func (k keysIn) Caps() locks.Caps { return locks.Caps{Name: k.backend} }

// Without a lock service, the guards are rows. The name says so, where the locks of jobs are if they are not in the store's
// tables, and their namespace.
func TestTheNameOfRowsAndOfLocksOfJobs(t *testing.T) {
	for _, c := range []struct {
		keys Locks
		set  string
		want string
	}{
		{nil, "", StoreLocks},
		{(*locks.Locker)(nil), "", StoreLocks},
		{keysIn{backend: "sqlite"}, "", StoreLocks},
		{keysIn{backend: "mysql-lease"}, "", StoreLocks},
		{keysIn{backend: "mysql-row"}, "", StoreLocks + ", with locks of jobs in mysql-row"},
		{keysIn{backend: "redis"}, "", StoreLocks + ", with locks of jobs in redis"},
		{nil, "prod", StoreLocks + ", namespace prod"},
		{keysIn{backend: "redis"}, "prod", StoreLocks + ", with locks of jobs in redis, namespace prod"},
	} {
		if got := lockService(nil, c.keys, c.set); got != c.want {
			t.Errorf("%T of set %q: %q, want %q", c.keys, c.set, got, c.want)
		}
	}
}
