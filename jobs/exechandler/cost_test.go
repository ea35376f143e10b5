//go:build linux

package exechandler_test

import (
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/exechandler"
)

// BenchmarkAttempt runs a command that does nothing, one after the other; with LOCKSTEP_TEST_DIRECT=1
// without a warden. cpu-µs/op is what this process, the warden and the commands took together.
func BenchmarkAttempt(b *testing.B) {
	h := handler(b, exechandler.Command{Argv: []string{"/bin/true"}})
	started := strconv.Itoa(os.Getpid())
	if os.Getenv(direct) == "" {
		var out strings.Builder
		if err := handler(b, exechandler.Command{Shell: "echo $PPID"}).Run(b.Context(), jobs.Task{}, &out); err != nil {
			b.Fatal(err)
		}
		started = strings.TrimSpace(out.String())
	}
	used := func() time.Duration {
		var self syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &self); err != nil {
			b.Fatal(err)
		}
		return time.Duration(self.Utime.Nano()+self.Stime.Nano()) + ofChildren(b, started)
	}
	before := used()
	b.ResetTimer()
	for range b.N {
		if err := h.Run(b.Context(), jobs.Task{ID: "id", Payload: []byte("{}")}, io.Discard); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	b.ReportMetric(float64((used()-before).Microseconds())/float64(b.N), "cpu-µs/op")
}

// ofChildren is what the children of a process took, and the process if it is not this one.
func ofChildren(b *testing.B, pid string) (used time.Duration) {
	line, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
	if err != nil {
		b.Fatal(err)
	}
	fields := strings.Fields(string(line[strings.LastIndexByte(string(line), ')')+1:]))[11:15] // utime, stime, cutime, cstime
	if pid == strconv.Itoa(os.Getpid()) {
		fields = fields[2:]
	}
	for _, f := range fields {
		ticks, err := strconv.Atoi(f)
		if err != nil {
			b.Fatal(err)
		}
		used += time.Duration(ticks) * time.Second / 100
	}
	return used
}
