package docs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// binary builds the scheduler once per run.
var binary = sync.OnceValues(func() (string, error) {
	path := filepath.Join(binaryDir, "scheduler")
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", path, "../../cmd/scheduler").CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
})

var binaryDir string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "lockstep-docs-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binaryDir = dir
	return servers.Main(m)
}

// reader is somebody who types what a page says.
type reader struct {
	t       *testing.T
	dir     string
	ports   map[string]string   // free addresses instead of the ports that are written
	running map[string]*replica // by id; "" is one without --id
}

// replica is a "serve" that runs beside what the reader types next.
type replica struct {
	cmd  *exec.Cmd
	log  string
	gone chan struct{}
}

func newReader(t *testing.T) *reader {
	t.Helper()
	r := &reader{t: t, dir: t.TempDir(), ports: map[string]string{}, running: map[string]*replica{}}
	if err := os.Mkdir(filepath.Join(r.dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile(filepath.Join(root, "config.example.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(r.dir, "config.example.yaml"), []byte(r.adapt(string(example))), 0o600); err != nil {
		t.Fatal(err)
	}
	return r
}

var serve = regexp.MustCompile(`^(?:bin/)?scheduler (serve(?: .*?)?)(?:\s+#.*|\s*&)?$`)

var listsTriggers = regexp.MustCompile(`triggers list --job (\w+)\s*$`)

// follow types a block: what stands between two "serve" as one script, which ends at the first
// command that fails.
func (r *reader) follow(at, text string) {
	r.t.Helper()
	var lines []string
	enter := func() {
		r.t.Helper()
		if text := strings.Join(lines, "\n"); strings.TrimSpace(text) != "" {
			r.shell(at, text)
		}
		lines = nil
	}
	for line := range strings.SplitSeq(r.adapt(text), "\n") {
		if m := serve.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
			enter()
			r.serve(at, strings.Fields(m[1]))
			continue
		}
		lines = append(lines, line)
	}
	enter()
}

func (r *reader) shell(at, text string) {
	r.t.Helper()
	repository, err := filepath.Abs(root)
	if err != nil {
		r.t.Fatal(err)
	}
	// The build is of this repository, and its result belongs to this reader.
	text = strings.ReplaceAll(text, "go build -o bin/scheduler ", "go build -C '"+repository+"' -buildvcs=false -o '"+r.dir+"/bin/scheduler' ")
	attempt := func() ([]byte, error) {
		cmd := exec.Command("sh", "-ec", text)
		cmd.Dir = r.dir
		cmd.Env = append(os.Environ(), "PATH="+filepath.Join(r.dir, "bin")+":"+os.Getenv("PATH"), "LOCKSTEP_SERVER=http://"+r.adapt("127.0.0.1:8080"))
		return cmd.CombinedOutput()
	}
	out, err := attempt()
	if err != nil {
		r.t.Fatalf("%s: %s: %v\n%s", at, text, err, out)
	}
	if m := listsTriggers.FindStringSubmatch(text); m != nil {
		// The job is due each five seconds: a reader who types fast sees none yet. What else stands in the
		// block must not be typed twice.
		lines := strings.Split(strings.TrimSpace(text), "\n")
		text = lines[len(lines)-1]
		within(r.t, 15*time.Second, text+": a trigger", func() bool {
			out, err := attempt()
			return err == nil && strings.Contains(string(out), m[1])
		})
	}
}

// serve starts a replica and returns when it is ready.
func (r *reader) serve(at string, args []string) {
	r.t.Helper()
	id := ""
	for i, arg := range args[:len(args)-1] {
		if arg == "--id" {
			id = args[i+1]
		}
	}
	if !slices.Contains(args, "--listen") {
		args = append(args, "--listen", r.adapt("127.0.0.1:8080")) // the default, which may be taken
	}
	one := &replica{log: filepath.Join(r.dir, fmt.Sprintf("replica-%d.log", len(r.running))), gone: make(chan struct{})}
	log, err := os.Create(one.log)
	if err != nil {
		r.t.Fatal(err)
	}
	defer log.Close()
	one.cmd = exec.Command(filepath.Join(r.dir, "bin", "scheduler"), args...)
	one.cmd.Dir, one.cmd.Stdout, one.cmd.Stderr = r.dir, log, log
	if err := servers.Start(one.cmd); err != nil {
		r.t.Fatalf("%s: %v", at, err)
	}
	r.running[id] = one
	go func() {
		_ = one.cmd.Wait() // its state is read where it matters
		close(one.gone)
	}()
	r.t.Cleanup(func() {
		_ = one.cmd.Process.Kill()
		<-one.gone
		if r.t.Failed() {
			text, _ := os.ReadFile(one.log)
			r.t.Logf("end of the log of replica %q:\n%s", id, text[max(0, len(text)-4000):])
		}
	})
	within(r.t, 30*time.Second, at+": the replica is ready", func() bool {
		select {
		case <-one.gone:
			r.t.Fatalf("%s: %v ended at once: %v", at, args, one.cmd.ProcessState)
		default:
		}
		url := address(one.log)
		if url == "" {
			return false
		}
		answer, err := http.Get(url + "/readyz")
		if err != nil {
			return false
		}
		defer answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	})
}

// address finds what a replica printed as its own.
func address(log string) string {
	text, err := os.ReadFile(log)
	if err != nil {
		return ""
	}
	for line := range bytes.Lines(text) {
		var record struct{ Msg, URL string }
		if json.Unmarshal(line, &record) == nil && record.Msg == "listening" {
			return record.URL
		}
	}
	return ""
}

// stop ends every replica as Ctrl-C would, and forgets them.
func (r *reader) stop() {
	r.t.Helper()
	for id, one := range r.running {
		if err := one.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			r.t.Fatal(err)
		}
		select {
		case <-one.gone:
			if code := one.cmd.ProcessState.ExitCode(); code != 0 {
				r.t.Errorf("replica %q drained with exit code %d", id, code)
			}
		case <-time.After(30 * time.Second):
			r.t.Fatalf("replica %q has not ended", id)
		}
		delete(r.running, id)
	}
}

func ends(one *replica) bool {
	select {
	case <-one.gone:
		return true
	case <-time.After(5 * time.Second):
		return false
	}
}

func within(t *testing.T, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}
