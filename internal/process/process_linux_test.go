package process

import (
	"os/exec"
	"strings"
	"testing"
)

func TestGone(t *testing.T) {
	self := Self()
	if self.Boot == "" || self.Start == 0 || self.Gone() {
		t.Fatalf("%+v: gone %v", self, self.Gone())
	}
	earlier := self
	earlier.Start--
	if !earlier.Gone() {
		t.Error("a process that had this pid before is not gone")
	}
	inContainer := earlier
	kernel, numbering, _ := strings.Cut(self.Boot, " ")
	inContainer.Boot = kernel + " pid:[1]"
	if inContainer.Gone() || !strings.HasPrefix(numbering, "pid:[") {
		t.Errorf("a process of another container is said to be gone, and ours is in %q", numbering)
	}
	elsewhere := self
	elsewhere.Boot, elsewhere.Start = "another", 1
	if elsewhere.Gone() {
		t.Error("a process of another boot is said to be gone")
	}
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	child := ID{Boot: self.Boot, PID: cmd.Process.Pid}
	_, child.Start, _ = stat(child.PID)
	if child.Gone() {
		t.Error("a running child is said to be gone")
	}
	cmd.Process.Kill()
	cmd.Wait()
	if !child.Gone() {
		t.Error("a dead child is not gone")
	}
}
