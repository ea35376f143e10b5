package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/config"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

const unitFile = "../../deploy/systemd/lockstep.service"

// exposure is what systemd may say at most of the unit, of 10. What is left to it is that jobs reach
// the network and the files of their user.
const exposure = "15" // tenths

// systemd accepts the unit, and rates it as restricted.
func TestUnit(t *testing.T) {
	servers.Need(t, "systemd-analyze")
	text, err := os.ReadFile(unitFile)
	if err != nil {
		t.Fatal(err)
	}
	// It is checked as installed, so its program must exist on this machine.
	unit := filepath.Join(t.TempDir(), "lockstep.service")
	installed := strings.ReplaceAll(string(text), "/usr/local/bin/scheduler", "/bin/true")
	if err := os.WriteFile(unit, []byte(installed), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"verify", "--man=no", "--recursive-errors=one", unit},
		{"security", "--no-pager", "--offline=true", "--threshold=" + exposure, unit},
	} {
		out, err := exec.Command("systemd-analyze", args...).CombinedOutput()
		if err != nil || args[0] == "verify" && len(out) > 0 {
			t.Errorf("systemd-analyze %s: %v\n%s", args[0], err, out)
		}
	}
	out, err := exec.Command("systemd-sysusers", "--dry-run", absolute(t, "../../deploy/systemd/lockstep.conf")).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "lockstep") {
		t.Errorf("systemd-sysusers: %v\n%s", err, out)
	}
}

// A stop by systemd gives a replica the time of its defaults.
func TestUnitWaitsForTheDrain(t *testing.T) {
	text, err := os.ReadFile(unitFile)
	if err != nil {
		t.Fatal(err)
	}
	wait := regexp.MustCompile(`(?m)^TimeoutStopSec=(\S+)$`).FindStringSubmatch(string(text))
	if wait == nil {
		t.Fatal("the unit has no TimeoutStopSec")
	}
	if d, err := time.ParseDuration(wait[1]); err != nil || d < drainLimit(config.Default().Replica.DrainTimeout) {
		t.Errorf("TimeoutStopSec=%s is shorter than a drain may take: %v", wait[1], drainLimit(config.Default().Replica.DrainTimeout))
	}
	for _, line := range []string{"KillMode=mixed", "KillSignal=SIGTERM", "RestartPreventExitStatus=2", "User=lockstep", "Environment=LOCKSTEP_CONFIG=/etc/lockstep/lockstep.yaml"} {
		if !regexp.MustCompile("(?m)^" + regexp.QuoteMeta(line) + "$").Match(text) {
			t.Errorf("the unit has no line %s", line)
		}
	}
}

// drainLimit is how long a replica may take from SIGTERM to its end with the default grace period of
// commands and a store that does not answer: what is being decided is waited for, commands end, or are
// stopped, or are killed, and their results are recorded.
func drainLimit(timeout time.Duration) time.Duration {
	const decide, tell, grace, margins = 10 * time.Second, 2 * time.Second, 10 * time.Second, 4 * time.Second
	const record, leave, closing = 10 * time.Second, 2 * time.Second, 3 * time.Second
	return decide + tell + timeout + grace + margins + record + leave + closing
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}
