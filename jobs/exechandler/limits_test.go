//go:build unix

package exechandler_test

import (
	"errors"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/exechandler"
)

// held is how this process holds limits. The log says which way is tested.
func held(t *testing.T) exechandler.Held {
	t.Helper()
	h := exechandler.LimitsHeld()
	t.Logf("limits are held by: cpu %q, memory %q (%s)", h.CPU, h.Memory, h.Why)
	return h
}

// without is an output without the line about limits at its end, and that line.
func without(out string) (rest, line string) {
	rest, line, _ = strings.Cut(out, "\n[limits: ")
	return rest, strings.TrimSuffix(line, "]\n")
}

// Commands are nicer from their first instruction on, with all that they start, and no other command is.
func TestNice(t *testing.T) {
	now, err := run(t, exechandler.Command{Shell: "nice"}, "")
	if err != nil {
		t.Fatal(err)
	}
	base, err := strconv.Atoi(strings.TrimSpace(now))
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			n := i % 4 * 5
			out, err := run(t, exechandler.Command{Shell: "nice; sh -c nice", Limits: exechandler.Limits{Nice: n}}, "")
			rest, line := without(out)
			want := strconv.Itoa(min(base+n, 19)) + "\n"
			if err != nil || rest != want+want || n > 0 && line != "nice "+strconv.Itoa(n) {
				t.Errorf("%d: %q, %v", n, out, err)
			}
		})
	}
	all.Wait()
}

// Too much memory is refused to a process, or the attempt is killed; what holds is said at the end of the output.
func TestMemory(t *testing.T) {
	h := held(t)
	if h.Memory == exechandler.NotHeld {
		out, err := run(t, exechandler.Command{Argv: []string{"echo", "runs"}, Limits: exechandler.Limits{Memory: 1 << 30}}, "")
		if rest, line := without(out); err != nil || rest != "runs\n" || !strings.HasPrefix(line, "memory 1 GiB; memory is not limited: ") {
			t.Errorf("%q, %v", out, err)
		}
		return
	}
	limited := func(bytes string) (string, error) {
		return run(t, exechandler.Command{
			Argv: []string{"dd", "if=/dev/zero", "of=/dev/null", "count=1", "bs=" + bytes}, Limits: exechandler.Limits{Memory: 100 << 20},
		}, "")
	}
	if out, err := limited("1M"); err != nil || !strings.Contains(out, "[limits: memory 100 MiB") {
		t.Errorf("little: %q, %v", out, err)
	}
	out, err := limited("300M")
	var exit *jobs.ExitError
	_, line := without(out)
	switch {
	case !errors.As(err, &exit):
		t.Errorf("much: %q, %v", out, err)
	case h.Memory == exechandler.ByGroup:
		if !exit.OutOfMemory || exit.Signal != 9 || !strings.HasPrefix(exit.Text, "killed at its memory limit of 100 MiB") || !strings.Contains(line, "of processor time") {
			t.Errorf("much: %+v, %q", exit, out)
		}
	case exit.Code != 1 || exit.OutOfMemory || !strings.Contains(line, "memory is limited as the address space of each process: "):
		t.Errorf("much: %+v, %q", exit, out)
	}
	if h.Memory == exechandler.ByLimit {
		out, err := run(t, exechandler.Command{Shell: "ulimit -v; ulimit -Hv; sh -c 'ulimit -v'", Limits: exechandler.Limits{Memory: 1 << 30, Nice: 1}}, "")
		if rest, _ := without(out); err != nil || rest != "1048576\n1048576\n1048576\n" {
			t.Errorf("%q, %v", out, err)
		}
		out, err = run(t, exechandler.Command{Shell: "ulimit -Sn", Limits: exechandler.Limits{Memory: 1 << 30}}, "")
		plain, err2 := run(t, exechandler.Command{Shell: "ulimit -Sn"}, "")
		if rest, _ := without(out); err != nil || err2 != nil || rest != plain {
			t.Errorf("descriptors: %q, %q, %v, %v", out, plain, err, err2)
		}
	}
}

// A limit of processors is held by a control group, or said not to be.
func TestCPU(t *testing.T) {
	h := held(t)
	out, err := run(t, exechandler.Command{Argv: []string{"cat", "/proc/self/cgroup"}, Limits: exechandler.Limits{CPU: 0.5}}, "")
	rest, line := without(out)
	if err != nil || !strings.HasPrefix(line, "cpu 0.5; ") {
		t.Fatalf("%q, %v", out, err)
	}
	if h.CPU == exechandler.ByGroup {
		if !strings.Contains(rest, "/lockstep-attempt-") || !strings.Contains(line, "of processor time") {
			t.Errorf("%q", out)
		}
		return
	}
	if h.Why == "" && runtime.GOOS == "linux" || strings.Contains(rest, "lockstep-attempt-") || !strings.Contains(line, "cpu is not limited: "+h.Why) {
		t.Errorf("%+v, %q", h, out)
	}
}

// Where control groups can be had they are used.
func TestGroupsAreUsedWhereTheyCanBe(t *testing.T) {
	text, err := os.ReadFile("/sys/fs/cgroup/cgroup.controllers")
	h := held(t)
	if err != nil || os.Getuid() != 0 || os.Getenv("LOCKSTEP_TEST_GROUPS") == "" && h.CPU == exechandler.NotHeld {
		t.Logf("not asked for: LOCKSTEP_TEST_GROUPS=1 says that this process has cgroup v2 for itself")
		return
	}
	if there := strings.Fields(string(text)); len(there) == 0 || h.CPU != exechandler.ByGroup || h.Memory != exechandler.ByGroup || h.Why != "" {
		t.Errorf("there are %v, and %+v is used", there, h)
	}
}

func TestLimitsAreChecked(t *testing.T) {
	for _, c := range []struct {
		limits exechandler.Limits
		says   string // "": it is right
	}{
		{exechandler.Limits{CPU: 0.01, Memory: 4 << 20, Nice: 19}, ""},
		{exechandler.Limits{CPU: 1024, Memory: 1 << 50}, ""},
		{exechandler.Limits{CPU: 0.009}, "limits: cpu: 0.009 is out of range"},
		{exechandler.Limits{CPU: 1025}, "limits: cpu: "},
		{exechandler.Limits{CPU: math.NaN()}, "limits: cpu: "},
		{exechandler.Limits{CPU: -1}, "limits: cpu: "},
		{exechandler.Limits{Memory: 1 << 20}, "limits: memory: 1048576 bytes are out of range 4 MiB–1 PiB"},
		{exechandler.Limits{Memory: 1<<50 + 1}, "limits: memory: "},
		{exechandler.Limits{Memory: -1}, "limits: memory: "},
		{exechandler.Limits{Nice: 20}, "limits: nice: 20 is out of range 0–19"},
		{exechandler.Limits{Nice: -1}, "limits: nice: "},
	} {
		_, err := exechandler.New(exechandler.Command{Argv: []string{"true"}, Limits: c.limits})
		if c.says == "" && err != nil || c.says != "" && (!errors.Is(err, jobs.ErrInvalid) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%+v: %v, want %q", c.limits, err, c.says)
		}
	}
}

func TestMissing(t *testing.T) {
	all := exechandler.Limits{CPU: 1, Memory: 1 << 30, Nice: 1}
	for _, c := range []struct {
		held   exechandler.Held
		limits exechandler.Limits
		want   string
	}{
		{exechandler.Held{CPU: exechandler.ByGroup, Memory: exechandler.ByGroup}, all, ""},
		{exechandler.Held{Memory: exechandler.ByLimit, Why: "no rights"}, all, "cpu is not limited, and memory is limited as the address space of each process: no rights"},
		{exechandler.Held{Memory: exechandler.ByLimit, Why: "no rights"}, exechandler.Limits{CPU: 1}, "cpu is not limited: no rights"},
		{exechandler.Held{}, exechandler.Limits{Memory: 1 << 30}, "memory is not limited: this system has no control groups"},
		{exechandler.Held{}, exechandler.Limits{Nice: 1}, ""},
		{exechandler.Held{}, exechandler.Limits{}, ""},
	} {
		if got := c.held.Missing(c.limits); got != c.want {
			t.Errorf("%+v of %v: %q", c.held, c.limits, got)
		}
	}
	if got := (exechandler.Limits{CPU: 0.25, Memory: 1536 << 10, Nice: 3}).String(); got != "cpu 0.25, memory 1536 KiB, nice 3" {
		t.Errorf("%q", got)
	}
}
