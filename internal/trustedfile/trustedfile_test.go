//go:build unix

package trustedfile_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/trustedfile"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

func TestMain(m *testing.M) { os.Exit(servers.Main(m)) }

// put makes a file with a mode, whatever the umask is.
func put(t *testing.T, text string, mode fs.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// own changes the owner of a file; only root can.
func own(t *testing.T, path string, user, group int) {
	t.Helper()
	if os.Geteuid() != 0 {
		servers.LeaveOut(t, "needs to be root, to make files of other users")
	}
	if err := os.Chown(path, user, group); err != nil {
		t.Fatal(err)
	}
}

var (
	public = trustedfile.Rule{Limit: 100}
	secret = trustedfile.Rule{Limit: 100, Secret: true}
)

func TestRead(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		mode    fs.FileMode
		rule    trustedfile.Rule
		exposed string
	}{{0o600, public, ""}, {0o400, secret, ""}, {0o644, secret, "can be read by others (mode 0644)"}, {0o640, secret, "can be read by others (mode 0640)"}, {0o755, public, "can be read by others (mode 0755)"}} {
		path := put(t, "hello", c.mode)
		file, err := c.rule.Read(path)
		if err != nil || string(file.Data) != "hello" || file.Exposed() != c.exposed || file.Mode != c.mode {
			t.Errorf("%04o: %+v, %v", c.mode, file, err)
		}
		link := filepath.Join(t.TempDir(), "link")
		if err := os.Symlink(path, link); err != nil {
			t.Fatal(err)
		}
		if file, err := c.rule.Read(link); err != nil || string(file.Data) != "hello" {
			t.Errorf("%04o by a link: %+v, %v", c.mode, file, err)
		}
	}
	if file, err := public.Read(put(t, strings.Repeat("x", 100), 0o600)); err != nil || len(file.Data) != 100 {
		t.Errorf("as large as may be: %d bytes, %v", len(file.Data), err)
	}
}

// wants holds that a file is refused within a second, with the problem and what to do.
func wants(t *testing.T, r trustedfile.Rule, path, problem, remedy string) {
	t.Helper()
	said := make(chan error, 1)
	go func() { _, err := r.Read(path); said <- err }()
	select {
	case err := <-said:
		bad, ok := errors.AsType[*trustedfile.Error](err)
		if !ok || bad.Path != path || bad.Problem != problem || bad.Remedy != remedy {
			t.Errorf("%v; want %q, %q", err, problem, remedy)
		}
	case <-time.After(5 * time.Second):
		t.Errorf("%s hangs", path)
	}
}

func TestRefusesWhatIsNoRegularFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fifo, socket := filepath.Join(dir, "fifo"), filepath.Join(dir, "socket")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for path, what := range map[string]string{dir: "a folder", fifo: "a FIFO", socket: "a socket or a device", os.DevNull: "a device"} {
		wants(t, public, path, "is "+what+", not a regular file", "name a regular file")
		handed := trustedfile.Rule{Limit: 100, Handed: true} // it has these names for what was handed over alone
		wants(t, handed, path, "is "+what+", not a regular file", "name a regular file")
	}
	for _, path := range []string{filepath.Join(dir, "none"), ""} {
		wants(t, public, path, "no such file or directory", "")
		if _, err := public.Read(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%v does not say that there is none", err)
		}
	}
	wants(t, public, put(t, strings.Repeat("x", 101), 0o600), "is larger than 100 bytes", "")
	wants(t, trustedfile.Rule{Limit: 4 << 10}, put(t, strings.Repeat("x", 5<<10), 0o600), "is larger than 4 KiB", "")
}

func TestRefusesWhatOthersMayWrite(t *testing.T) {
	t.Parallel()
	for _, mode := range []fs.FileMode{0o666, 0o602, 0o777, 0o622} {
		path := put(t, "x", mode)
		problem := fmt.Sprintf("can be written by others (mode %04o)", mode)
		wants(t, public, path, problem, "chmod go-w "+path)
		wants(t, secret, path, problem, "chmod 600 "+path)
	}
	path := put(t, "x", 0o664)
	wants(t, secret, path, "can be written by others (mode 0664)", "chmod 600 "+path)
}

// A checkout under umask 002 has such files, and only its user may write them.
func TestThePrivateGroupOfAUserMayWrite(t *testing.T) {
	t.Parallel()
	path := put(t, "x", 0o664)
	own(t, path, 4321, 4321) // its owner is judged after its mode: TestAnACLMayLetOthersWrite is the owner
	wants(t, public, path, "is owned by user 4321, who can change it, and neither by root nor by this process's user 0",
		"chown 0 "+path+"; in a container, mount it read-only")
	for _, group := range [][2]int{{4321, 4322}, {4321, 0}, {0, 4321}, {0, 0}} { // 0: some platforms put every user in it
		own(t, path, group[0], group[1])
		wants(t, public, path, "can be written by others (mode 0664)", "chmod go-w "+path)
	}
}

func TestRefusesTheFileOfAnotherUser(t *testing.T) {
	t.Parallel()
	path := put(t, "x", 0o600)
	own(t, path, 4321, 4321)
	for _, rule := range []trustedfile.Rule{public, secret} {
		wants(t, rule, path, fmt.Sprintf("is owned by user 4321, who can change it, and neither by root nor by this process's user %d", os.Geteuid()),
			fmt.Sprintf("chown %d %s; in a container, mount it read-only", os.Geteuid(), path))
	}
}

// A descriptor that this process was started with may be a pipe.
func TestReadsWhatWasHandedOver(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	path := fmt.Sprintf("/dev/fd/%d", r.Fd())
	wants(t, public, path, "is a FIFO, not a regular file", "name a regular file")
	go func() {
		time.Sleep(100 * time.Millisecond) // the reader is there first
		_, _ = w.WriteString("hello")
		_ = w.Close()
	}()
	file, err := trustedfile.Rule{Limit: 100, Handed: true}.Read(path)
	if err != nil || string(file.Data) != "hello" || file.Exposed() != "" {
		t.Errorf("%+v, %v", file, err)
	}
	open, err := os.Open(put(t, "x", 0o666))
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	path = fmt.Sprintf("/dev/fd/%d", open.Fd())
	wants(t, trustedfile.Rule{Limit: 100, Handed: true}, path, "can be written by others (mode 0666)", "chmod go-w "+path)
}
