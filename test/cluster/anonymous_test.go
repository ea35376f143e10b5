package cluster

import (
	"crypto/tls"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/api"
	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/client"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/test/program"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// TestAnonymousConnections: while 300 connections without a token are held open, and reopened when closed, at a limit
// of 256 open files, every due time runs, no attempt fails, and a client with a token is served. It runs alone: the
// clients compete for the machine.
func TestAnonymousConnections(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	secret, token := api.NewToken("op", api.Operator, time.Time{})
	authority := servers.NewAuthority(t)
	own := authority.Server()
	if err := os.WriteFile(file("tokens.yaml"), fmt.Appendf(nil, "- {name: op, role: operator, sha256: \"%x\"}\n", token.SHA256), 0o600); err != nil {
		t.Fatal(err)
	}
	settings := fmt.Sprintf(`version: 1
server: {auth: {tokens_file: tokens.yaml}, tls: {cert_file: %q, key_file: %q}}
jobs:
  second: {schedule: "* * * * * *", command: ["true"], concurrency: allow}
pools:
  shell: {workers: 32, shell: "cat >/dev/null; sleep 0.1", retries: {limit: 0}}
`, own.CertFile, own.KeyFile)
	if err := os.WriteFile(file("lockstep.yaml"), []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/bin/sh", "-c", `ulimit -n 256 && exec "$0" serve -c lockstep.yaml --listen 127.0.0.1:0 --id a`, program.Build(t, scheduler))
	cmd.Dir = dir
	r := program.Start(t, cmd)
	address := r.URL(t)
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(r.Log(), "256 files may be open, and 64 workers may need 384") {
		t.Errorf("nothing is said of the limit: %s", r.Log())
	}

	began := time.Now()
	stop, stopped := make(chan struct{}), make(chan int)
	anonymous := func() {
		shaken := 0
		defer func() { stopped <- shaken }()
		for {
			conn, err := tls.Dial("tcp", u.Host, authority.TLS())
			if err == nil {
				shaken++
				_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second))
				_, _ = conn.Read(make([]byte, 1)) // until it is closed
				conn.Close()
			}
			select {
			case <-stop:
				return
			case <-time.After(3 * time.Second): // so that handshakes of this process do not use up the processors
			}
		}
	}
	for range 300 {
		go anonymous()
	}
	operator := func() *client.Client { // on a connection of its own
		c, err := client.New(address, client.Options{Token: secret, TLS: authority.TLS()})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	// On a busy machine a handshake may take longer than its place is kept: the client retries, and is accepted soon.
	letIn := func() (c *client.Client) {
		var err error
		for end := time.Now().Add(10 * time.Second); ; {
			c = operator()
			if _, err = c.Jobs(t.Context(), wire.Page{}); err == nil {
				return c
			}
			if time.Now().After(end) {
				t.Fatalf("an operator is not answered: %v", err)
			}
		}
	}
	first := letIn()
	var ids []string
	for range 5 {
		tasks, err := first.Enqueue(t.Context(), slices.Repeat([]jobs.NewTask{{Pool: "shell"}}, 20)...)
		if err != nil {
			t.Fatalf("an operator who was let in is not answered: %v", err)
		}
		for _, task := range tasks {
			ids = append(ids, task.ID)
		}
		letIn()
		time.Sleep(time.Second)
	}
	program.Within(t, 60*time.Second, "all tasks have ended", func() bool {
		left := 0
		for _, state := range []jobs.State{jobs.StatePending, jobs.StateRunning} {
			list, err := first.Tasks(t.Context(), wire.TaskFilter{Pool: "shell", State: state})
			if err != nil {
				t.Fatal(err)
			}
			left += len(list.Items)
		}
		return left == 0
	})
	until := time.Now()
	close(stop)
	shaken := 0
	for range 300 {
		shaken += <-stopped
	}
	if shaken < 300 {
		t.Errorf("only %d connections of strangers stood", shaken)
	}

	for _, id := range ids {
		if task, err := first.Task(t.Context(), id); err != nil || task.Task.State != jobs.StateSucceeded || task.Task.Attempt != 1 {
			t.Errorf("%+v, %v", task.Task, err)
		}
	}
	due := map[int64]bool{}
	for page := (wire.Page{Limit: 500}); ; {
		list, err := first.Triggers(t.Context(), wire.TriggerFilter{Job: "second", Since: began, Page: page})
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range list.Items {
			due[row.At.Unix()] = row.Outcome == jobs.Ran && row.Result == jobs.StateSucceeded
		}
		if page.Cursor = list.Next; list.Next == "" {
			break
		}
	}
	for at := began.Unix() + 1; at < until.Unix()-2; at++ {
		if !due[at] {
			t.Errorf("%v did not run", time.Unix(at, 0).UTC())
		}
	}
	if ready, err := first.Ready(t.Context()); err != nil || !slices.ContainsFunc(ready.Conditions, func(c wire.Condition) bool {
		return c.Name == "descriptors" && strings.Contains(c.Detail, "256 files may be open")
	}) {
		t.Errorf("readiness says nothing of the limit: %+v, %v", ready, err)
	}
	r.Drain(t, 30*time.Second)
}
