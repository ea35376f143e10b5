package process

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
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
		t.Error("an ended child is not gone")
	}
	warden := exec.Command("/proc/self/exe")
	warden.Args = []string{Warden, "of", child.Tag()}
	if err := warden.Start(); err != nil {
		t.Fatal(err)
	}
	if child.Gone() {
		t.Error("a child is said to be gone while a warden ends what it had started")
	}
	if self.Start++; !self.Gone() {
		t.Error("a warden of one process keeps another from being gone")
	}
	warden.Process.Kill()
	warden.Wait()
	if !child.Gone() {
		t.Error("an ended child of an ended warden is not gone")
	}
}

// TestMain plays a warden where it is called one.
func TestMain(m *testing.M) {
	if os.Args[0] == Warden {
		time.Sleep(time.Minute)
		return
	}
	os.Exit(m.Run())
}
