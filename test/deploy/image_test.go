//go:build linux

package deploy

import (
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/client"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/store"
	_ "github.com/lockstep-scheduler/lockstep/store/sqlite"
	"github.com/lockstep-scheduler/lockstep/test/program"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// It runs as an unprivileged user, on a read-only root, and trusts the authorities of the one file where images have
// them.
func TestEmptyRoot(t *testing.T) {
	if os.Getuid() != 0 {
		servers.LeaveOut(t, "needs root, to make another folder the root")
	}
	app := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "called for "+r.Header.Get("Lockstep-Job"))
	}))
	defer app.Close()
	root := newRoot(t, app)
	replica := program.Start(t, inRoom(t, root, "/scheduler", "serve"))
	c, err := client.New(replica.URL(t), client.Options{})
	if err != nil {
		t.Fatal(err)
	}

	out := runJob(t, c, "command", jobs.StateSucceeded)
	for _, want := range []string{"uid 65532, task 0", `payload {"to":"you"}`, "/written: open", "/etc/lockstep/written: open", "/tmp/written: open", "\nwritten: <nil>"} {
		if !strings.Contains(out, want) {
			t.Errorf("the command wrote no %q but\n%s", want, out)
		}
	}
	if strings.Contains(out, "zone files") {
		t.Error("the root has zone files")
	}
	if out := runJob(t, c, "https", jobs.StateSucceeded); out != "called for https" {
		t.Errorf("the server answered %q", out)
	}
	due, err := c.Next(t.Context(), "winter", 1)
	if err != nil || len(due) != 1 || due[0].At.Format("01-02 15:04") != "06-30 22:30" {
		t.Errorf("23:30 in London of June 30 is %v, %v", due, err)
	}

	for _, args := range [][]string{{"/scheduler", "healthcheck"}, {"/scheduler", "healthcheck", "--ready"}, {"/scheduler", "validate"}} {
		cmd := inRoom(t, root, args...)
		cmd.Env = append(cmd.Env, "LOCKSTEP_SERVER="+replica.URL(t))
		check := program.Start(t, cmd)
		if code := check.Exit(t, 10*time.Second); code != 0 {
			t.Errorf("%v: exit code %d\n%s", args, code, check.Log())
		}
	}

	// A stop lets work finish, with exit code 0.
	run, err := c.RunJob(t.Context(), "slow")
	if err != nil {
		t.Fatal(err)
	}
	program.Within(t, 10*time.Second, "slow runs", func() bool {
		task, err := c.Task(t.Context(), run.Task.ID)
		return err == nil && task.Task.State == jobs.StateRunning
	})
	replica.Drain(t, 20*time.Second)
	if task := readTask(t, root, run.Task.ID); task != "succeeded" {
		t.Errorf("slow is %q after the drain", task)
	}
	if code := program.Start(t, inRoom(t, root, "/scheduler", "healthcheck")).Exit(t, 10*time.Second); code != 1 {
		t.Errorf("no server listens, and the health check returns %d", code)
	}
}

// An image without the file of authorities trusts none, and reports it.
func TestEmptyRootWithoutAuthorities(t *testing.T) {
	if os.Getuid() != 0 {
		servers.LeaveOut(t, "needs root, to make another folder the root")
	}
	app := httptest.NewUnstartedServer(http.NotFoundHandler())
	app.Config.ErrorLog = log.New(io.Discard, "", 0) // of the refused handshake
	app.StartTLS()
	defer app.Close()
	root := newRoot(t, app)
	if err := os.RemoveAll(filepath.Join(root, "etc/ssl")); err != nil {
		t.Fatal(err)
	}
	replica := program.Start(t, inRoom(t, root, "/scheduler", "serve"))
	c, err := client.New(replica.URL(t), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	run, err := c.RunJob(t.Context(), "https")
	if err != nil {
		t.Fatal(err)
	}
	task := ended(t, c, run.Task.ID)
	if task.State != jobs.StateFailed || !strings.Contains(task.Error, "certificate signed by unknown authority") {
		t.Errorf("the task is %s: %s", task.State, task.Error)
	}
}

// newRoot is the content of the image, and a user's program.
func newRoot(t *testing.T, app *httptest.Server) string {
	t.Helper()
	root := t.TempDir()
	for dir := root; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil { // the replica's user passes through
			t.Fatal(err)
		}
	}
	write := func(name string, mode os.FileMode, text []byte) {
		t.Helper()
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, text, mode); err != nil {
			t.Fatal(err)
		}
	}
	for name, source := range map[string]string{"scheduler": "../../cmd/scheduler", "job": "./testdata/job"} {
		text, err := os.ReadFile(program.Build(t, source, static))
		if err != nil {
			t.Fatal(err)
		}
		write(name, 0o755, text)
	}
	authorities := filepath.Join(t.TempDir(), "authorities.pem")
	if err := os.WriteFile(authorities, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: app.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	furnish(t, root, authorities)
	write("etc/lockstep/lockstep.yaml", 0o644, []byte(`version: 1
store: {dsn: /var/lib/lockstep/lockstep.db}
server: {listen: "127.0.0.1:0"}
jobs:
  command: {command: [/job], payload: {to: you}}
  slow: {command: [/job, wait], payload: {}}
  https: {http: {method: GET, url: "`+app.URL+`/"}}
  winter: {schedule: "30 23 30 6 *", timezone: Europe/London, command: [/job]}
`))
	return root
}

// furnish creates the image's folders and files as the Dockerfile does, except the program.
func furnish(t *testing.T, root, authorities string) {
	t.Helper()
	text := strings.ReplaceAll(readFile(t, "../../deploy/Dockerfile"), "\\\n", " ")
	_, commands, found := strings.Cut(text, "\nRUN mkdir ")
	commands, _, ended := strings.Cut(commands, "\n")
	if !found || !ended {
		t.Fatal("the Dockerfile has no line RUN mkdir")
	}
	commands = strings.NewReplacer(
		"cp /etc/ssl/certs/ca-certificates.crt /image/etc/ssl/certs/", "install -m 0644 "+authorities+" "+root+"/etc/ssl/certs/ca-certificates.crt",
		"/image/", root+"/", " LICENSE ", " "+absolute(t, "../../LICENSE")+" ",
	).Replace("mkdir " + commands)
	script(t, root, commands)
	for _, file := range []string{"etc/ssl/certs/ca-certificates.crt", "etc/passwd", "etc/group", "LICENSE"} {
		if info, err := os.Stat(filepath.Join(root, file)); err != nil || info.Size() == 0 {
			t.Errorf("the image has no %s: %v", file, err)
		}
	}
}

// runJob runs a job on demand, after the scheduled run that may last, and returns the output of its task, which must end in state.
func runJob(t *testing.T, c *client.Client, name string, state jobs.State) string {
	t.Helper()
	var run wire.Run
	var err error
	program.Within(t, 20*time.Second, "no run of "+name+" lasts", func() bool {
		run, err = c.RunJob(t.Context(), name)
		return !refused(err, 409)
	})
	if err != nil {
		t.Fatal(err)
	}
	task := ended(t, c, run.Task.ID)
	if task.State != state {
		t.Errorf("%s is %s: %s", name, task.State, task.Error)
	}
	out, err := c.Output(t.Context(), run.Task.ID, task.Attempt)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// readTask is the state of an ended task, as the file has it after its replica is gone.
func readTask(t *testing.T, root, id string) string {
	t.Helper()
	st, err := store.Open(t.Context(), "sqlite", filepath.Join(root, "var/lib/lockstep/lockstep.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	task, _, err := st.Task(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return string(task.State)
}

func ended(t *testing.T, c *client.Client, id string) (task jobs.Task) {
	t.Helper()
	program.Within(t, 20*time.Second, "task "+id+" ends", func() bool {
		whole, err := c.Task(t.Context(), id)
		task = whole.Task
		return err == nil && task.State.Ended()
	})
	return task
}

// inRoom is a program in the root as the image's user.
func inRoom(t *testing.T, root string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(program.Build(t, "./testdata/room", static), append([]string{root}, args...)...)
	cmd.Env = []string{"HOME=/var/lib/lockstep", "LOCKSTEP_CONFIG=/etc/lockstep/lockstep.yaml"}
	return cmd
}
