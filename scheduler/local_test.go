package scheduler

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/locks/memlock"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// here is a store that is on this machine, as SQLite is, or is not.
type here struct {
	ledger.Store
	local bool
}

func (h here) Local() bool { return h.local }

// MachineClock is the environment variable of a test run that uses the machine's clocks.
const MachineClock = "LOCKSTEP_TEST_MACHINE_CLOCK"

// OnTheMachinesClocks reports whether the test uses them. If not, it runs the test in a process that does.
func OnTheMachinesClocks(t *testing.T) bool {
	if os.Getenv(MachineClock) != "" {
		return true
	}
	again := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	again.Env = append(os.Environ(), MachineClock+"=1")
	if out, err := again.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("%v\n%s", err, out)
	}
	return false
}

// Sessions are judged by the clock that stops while the machine sleeps if all replicas are on the machine: those of a
// local store that is its own lock service.
func TestTheClockOfSessions(t *testing.T) {
	if !OnTheMachinesClocks(t) {
		return
	}
	lk := replicatest.LockerOf(t, memlock.New())
	for _, c := range []struct {
		local bool
		locks Locks
		awake bool
	}{{true, nil, true}, {false, nil, false}, {true, lk, false}, {false, lk, false}} {
		s, err := newOn(here{&memstore.Store{Database: memstore.New()}, c.local}, c.locks, jobs.Set{}, Options{ID: "a"})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.members.Join(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := s.members.Session().Trust.Stamp().Awake; got != c.awake {
			t.Errorf("store on this machine: %t, lock service of its own: %t: by the clock without sleep: %t", c.local, c.locks == nil, got)
		}
	}
	if boottime.Now().Stamp().Awake == boottime.Awake().Stamp().Awake {
		t.Error("the two clocks look the same")
	}
}
