//go:build !unix

package program

import (
	"os"
	"testing"

	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// Pause leaves the test out: a process cannot be stopped here.
func Pause(t testing.TB, _ *os.Process, _ bool) {
	t.Helper()
	servers.LeaveOut(t, "needs SIGSTOP")
}
