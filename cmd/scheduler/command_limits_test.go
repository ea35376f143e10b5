package main

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/jobs/exechandler"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

// What does not hold of limits is said when they come, in log and readiness, which is green, and by the doctor. It holds for what is
// loaded while the replica runs, too.
func TestLimitsThatDoNotHoldAreSaid(t *testing.T) {
	held := exechandler.LimitsHeld()
	if held.CPU != exechandler.NotHeld {
		t.Log("they hold here, and so nothing is said: ", held)
	}
	missing := held.Missing(exechandler.Limits{CPU: 1})
	path := filepath.Join(t.TempDir(), "lockstep.yaml")
	swapFile(t, path, withJobs("", "a"))
	s := serveFile(t, path)
	s.has("a")
	ready := func() (int, string) { return status(t, http.DefaultClient, s.url+"/readyz", "") }
	if _, body := ready(); strings.Contains(body, `"limits"`) {
		t.Errorf("without limits: %s", body)
	}
	swapFile(t, path, withJobs("", "a")+"  b: {command: [echo], limits: {cpu: 1}}\n")
	s.has("a b")
	await.Until(t, "readiness says so", func() bool {
		code, body := ready()
		return code == http.StatusOK && strings.Contains(body, `"name":"limits","ready":true,"detail":"of commands: cpu is not limited: `) == (missing != "")
	})
	if got := s.log.has(`"msg":"limits of commands do not hold as they are written","why":"cpu is not limited: `); got != (missing != "") {
		t.Errorf("the log says so: %t", got)
	}
	swapFile(t, path, withJobs("", "a"))
	s.has("a")
	await.Until(t, "readiness says nothing more", func() bool { _, body := ready(); return !strings.Contains(body, `"limits"`) })

	all, code := runDoctor(t, t.TempDir(), "defaults: {limits: {nice: 1}}\npools: {p: {command: [echo], limits: {cpu: 1}}}")
	want := "ok limits: limits of commands (cpu 1"
	if exechandler.LimitsExpected().Missing(exechandler.Limits{CPU: 1}) != "" {
		want = "warning limits: in the control group of this process, of the limits of commands: cpu is not limited: "
	}
	wantFinding(t, all, want)
	if code != 0 {
		t.Errorf("exit code %d", code)
	}
}
