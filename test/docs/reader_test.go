package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/program"
)

func TestMain(m *testing.M) { os.Exit(program.Main(m)) }

// reader executes the commands of a page.
type reader struct {
	t       *testing.T
	dir     string
	ports   map[string]string           // free addresses instead of the ports that are written
	running map[string]*program.Process // the replicas, by id; "" is one without --id
}

func newReader(t *testing.T) *reader {
	t.Helper()
	r := &reader{t: t, dir: t.TempDir(), ports: map[string]string{}, running: map[string]*program.Process{}}
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
		program.Within(r.t, 15*time.Second, text+": a trigger", func() bool {
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
	r.t.Logf("%s: %v", at, args)
	cmd := exec.Command(filepath.Join(r.dir, "bin", "scheduler"), args...)
	cmd.Dir = r.dir
	r.running[id] = program.Start(r.t, cmd)
	r.running[id].URL(r.t)
}

// stop ends every replica as Ctrl-C would, and forgets them.
func (r *reader) stop() {
	r.t.Helper()
	for id, one := range r.running {
		one.Drain(r.t, 30*time.Second)
		delete(r.running, id)
	}
}
