package cluster

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/config"
)

var (
	fence  = regexp.MustCompile("(?ms)^```(sh|yaml)\n(.*?)^```$")
	listen = regexp.MustCompile(`127\.0\.0\.1:(808[0-9])`)
)

// Every command of the README runs as it stands there, but for ports and folders, and its YAML loads.
func TestReadme(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile(filepath.Join(root, "config.example.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	r := &reading{t: t, root: root, dir: t.TempDir(), ports: map[string]string{}, running: map[string]*replica{}}
	if err := os.WriteFile(filepath.Join(r.dir, "config.example.yaml"), []byte(r.adapt(string(example))), 0o600); err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for _, block := range fence.FindAllStringSubmatch(string(text), -1) {
		kind, body := block[1], block[2]
		seen[kind]++
		if kind == "yaml" {
			if _, err := config.LoadBytes("README.md", []byte("version: 1\n"+body), config.Options{}); err != nil {
				t.Errorf("%v in\n%s", err, body)
			}
			continue
		}
		for line := range strings.Lines(body) {
			r.run(strings.TrimSpace(line))
		}
		switch first, _, _ := strings.Cut(body, "\n"); {
		case strings.HasPrefix(first, "go build"): // the verbs of the paragraph below it
			r.run("bin/scheduler jobs list")
			r.run("bin/scheduler triggers list")
			r.run("bin/scheduler tasks list")
			r.run("bin/scheduler pools list")
			r.stop()
		case strings.Contains(body, "kill -9"):
			if a := r.running["a"]; a == nil || !exits(a) || a.cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
				t.Error("the replica a was not killed")
			}
		}
	}
	if seen["sh"] < 3 || seen["yaml"] < 1 || len(r.running) < 3 {
		t.Errorf("the README has %v, and %d replicas were started", seen, len(r.running))
	}
}

// reading is somebody who types what the README says.
type reading struct {
	t         *testing.T
	root, dir string
	ports     map[string]string // free ones instead of those that are written
	running   map[string]*replica
}

func (r *reading) adapt(text string) string {
	return listen.ReplaceAllStringFunc(text, func(written string) string {
		if r.ports[written] == "" {
			r.ports[written] = freeAddress(r.t)
		}
		return r.ports[written]
	})
}

func (r *reading) run(line string) {
	r.t.Helper()
	line = r.adapt(line)
	if program, args, _ := strings.Cut(line, " "); program == "bin/scheduler" && strings.HasPrefix(args, "serve ") {
		words := strings.Fields(args)
		id := "first"
		if i := strings.Index(args, "--id "); i >= 0 {
			id = strings.Fields(args[i:])[1]
		}
		r.running[id] = startWith(r.t, r.dir, id, words...)
		return
	}
	cmd := exec.Command("sh", "-c", line)
	cmd.Dir = r.dir
	if rest, isBuild := strings.CutPrefix(line, "go build -o "); isBuild {
		cmd = exec.Command("sh", "-c", "go build -buildvcs=false -o "+r.dir+"/"+rest)
		cmd.Dir = r.root
	}
	cmd.Env = append(os.Environ(), "LOCKSTEP_SERVER=http://"+r.adapt("127.0.0.1:8080"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("%s: %v\n%s", line, err, out)
	}
	if strings.Contains(line, "triggers list --job tick") {
		// It is due each five seconds: a reader who types fast sees none yet.
		within(r.t, 15*time.Second, line+": a trigger", func() bool {
			again := exec.Command(cmd.Path, cmd.Args[1:]...)
			again.Dir, again.Env = cmd.Dir, cmd.Env
			out, err := again.CombinedOutput()
			return err == nil && strings.Contains(string(out), "tick")
		})
	}
}

func (r *reading) stop() {
	for _, one := range r.running {
		one.terminate(r.t)
		one.wantExit(r.t, drainTimeout)
	}
}

func exits(r *replica) bool {
	select {
	case <-r.gone:
		return true
	case <-time.After(5 * time.Second):
		return false
	}
}
