//go:build !unix

package scenarios

import (
	"os"
	"testing"

	"github.com/lockstep-scheduler/lockstep/test/servers"
)

func pause(t *testing.T, _ *os.Process, _ bool) {
	t.Helper()
	servers.LeaveOut(t, "needs SIGSTOP")
}
