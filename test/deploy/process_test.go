package deploy

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/servers"
)

var built struct {
	sync.Mutex
	dir   string
	paths map[string]string
}

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "lockstep-deploy-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	built.dir, built.paths = dir, map[string]string{}
	return servers.Main(m)
}

// static builds a program once, without C as the Dockerfile does.
func static(t *testing.T, source string) string {
	t.Helper()
	built.Lock()
	defer built.Unlock()
	if path := built.paths[source]; path != "" {
		return path
	}
	path := filepath.Join(built.dir, filepath.Base(source))
	cmd := exec.Command("go", "build", "-buildvcs=false", "-o", path, source)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build %s: %v\n%s", source, err, out)
	}
	built.paths[source] = path
	return path
}

// process is a program that a test runs. It starts when it is first asked for something.
type process struct {
	cmd  *exec.Cmd
	file string // of its output
	gone chan struct{}
}

func prepare(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	return &process{cmd: cmd, file: filepath.Join(t.TempDir(), "log")}
}

func (p *process) env(more ...string) { p.cmd.Env = append(p.cmd.Env, more...) }

func (p *process) start(t *testing.T) {
	t.Helper()
	if p.gone != nil {
		return
	}
	log, err := os.Create(p.file)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	p.cmd.Stdout, p.cmd.Stderr = log, log
	if err := servers.Start(p.cmd); err != nil {
		t.Fatal(err)
	}
	p.gone = make(chan struct{})
	go func() {
		_ = p.cmd.Wait() // its state is read where it matters
		close(p.gone)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.gone
		if t.Failed() {
			t.Logf("%v:\n%s", p.cmd.Args, p.log())
		}
	})
}

// url starts a replica and returns the address of its API once it is ready.
func (p *process) url(t *testing.T) (url string) {
	t.Helper()
	p.start(t)
	within(t, 30*time.Second, "the replica is ready", func() bool {
		select {
		case <-p.gone:
			t.Fatalf("it ended at once: %v", p.cmd.ProcessState)
		default:
		}
		for line := range strings.Lines(p.log()) {
			var record struct{ Msg, URL string }
			if json.Unmarshal([]byte(line), &record) == nil && record.Msg == "listening" {
				url = record.URL
			}
		}
		return url != "" && ready(url)
	})
	return url
}

// end waits for the program's end and returns its exit code.
func (p *process) end(t *testing.T, limit time.Duration) int {
	t.Helper()
	p.start(t)
	select {
	case <-p.gone:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(limit):
		t.Fatalf("%v has not ended within %v", p.cmd.Args, limit)
		return 0
	}
}

func (p *process) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

func (p *process) log() string {
	text, _ := os.ReadFile(p.file) // not there yet: nothing was said
	return string(bytes.TrimSpace(text[max(0, len(text)-8000):]))
}

// within waits until ok, and fails the test if that takes longer than limit.
func within(t *testing.T, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}

// ready asks a replica on this machine, whose certificate may be anybody's.
func ready(url string) bool {
	c := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true,
	}}
	answer, err := c.Get(url + "/readyz")
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}
