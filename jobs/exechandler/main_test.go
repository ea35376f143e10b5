//go:build unix

package exechandler_test

import (
	"flag"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/jobs/exechandler"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// direct in the environment makes this test binary run its commands without a warden.
const direct = "LOCKSTEP_TEST_DIRECT"

func TestMain(m *testing.M) {
	if os.Getenv(direct) == "" && exechandler.Warden() {
		return
	}
	if text := os.Getenv(played); text != "" {
		os.Exit(play(text))
	}
	if shell := os.Getenv(reporting); shell != "" {
		os.Exit(reportAlone(shell))
	}
	_ = flag.Set("test.parallel", "4") // they wait more than they work
	os.Exit(servers.Main(m))
}

// played in the environment makes this test binary a replica that runs one command.
const played = "LOCKSTEP_TEST_PLAYED"

// What holds with the warden holds without it, but for what is about the warden.
func TestWithoutTheWarden(t *testing.T) {
	if os.Getenv(direct) != "" || !exechandler.CanWarden() {
		return // this is it
	}
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.skip=^(Benchmark|TestWarden|TestNewRefuses|TestDescribe|TestEnvFiles|TestVariables)")
	cmd.Env = append(os.Environ(), direct+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestStopIsATermToTheGroup") {
		t.Errorf("%v\n%s", err, out)
	}
}
