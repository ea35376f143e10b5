package trustedfile_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// Container engines mount files of the machine's users; the mount decides on their owner. A
// system that is read-only as a whole, as a service manager makes it, says nothing of its files.
func TestFilesOfOthersThatAreMountedReadOnly(t *testing.T) {
	if path := os.Getenv("LOCKSTEP_TEST_MOUNTED"); path != "" { // in the mount namespace
		if _, err := public.Read(path); err != nil {
			os.Stdout.WriteString("refused: " + err.Error() + "\n")
		} else {
			os.Stdout.WriteString("read\n")
		}
		return
	}
	path := put(t, "x", 0o644)
	own(t, path, 4321, 4321)
	for mounts, want := range map[string]string{
		"mount --bind \"$1\" \"$1\" && mount -o remount,bind,ro \"$1\"":                "read\n",
		"mount --bind \"${1%/*}\" \"${1%/*}\" && mount -o remount,bind,ro \"${1%/*}\"": "read\n",
		"mount --bind \"$1\" \"$1\"": "refused: " + path + ": is owned by user 4321",
		":":                          "refused: " + path + ": is owned by user 4321",
		"mount --bind \"$1\" \"$1\" && mount -o remount,bind,ro \"$1\" && chmod 666 \"$2\"": "refused: " + path + ": can be written by others",
		"mount --make-rprivate / && { mount -o remount,bind,ro / || echo cannot; }":         "refused: " + path + ": is owned by user 4321",
	} {
		if err := os.Chmod(path, 0o644); err != nil {
			t.Fatal(err)
		}
		alias := path + ".alias"
		_ = os.Remove(alias)
		if err := os.Link(path, alias); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("unshare", "--mount", "sh", "-ec", mounts+`; exec "$0" -test.run="^TestFilesOfOthersThatAreMountedReadOnly$"`, os.Args[0], path, alias)
		cmd.Env = append(os.Environ(), "LOCKSTEP_TEST_MOUNTED="+path)
		out, err := cmd.CombinedOutput()
		if strings.Contains(string(out), "ermission denied") || strings.Contains(string(out), "not permitted") {
			servers.LeaveOut(t, "needs the right to mount")
		}
		if !strings.HasPrefix(string(out), want) {
			t.Errorf("%s: %s, %v; want %s", mounts, out, err, want)
		}
	}
}
