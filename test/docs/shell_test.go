package docs

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/client"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/test/program"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// Every shell block of every page runs as it stands there, but for ports and folders: block by block
// in one folder per page, which has config.example.yaml and bin/scheduler. "serve" runs beside what
// follows it, until the end of the page. In a console block, lines with "$ " in front are commands.
func TestShell(t *testing.T) {
	for _, file := range pages(t) {
		if file == "README.md" {
			continue // TestReadme holds it to more
		}
		all := blocks(t, file)
		commands := 0
		for _, b := range all {
			if script(b) != "" {
				commands++
			}
		}
		if commands == 0 {
			continue
		}
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			r := newReader(t)
			r.install()
			for _, b := range all {
				if s := script(b); s != "" {
					r.follow(b.at(), s)
				}
			}
		})
	}
}

// script is the shell commands of a block; nothing, if it is not for the shell.
func script(b block) string {
	if b.notRun != "" {
		return ""
	}
	text := ""
	switch b.language {
	case "sh":
		text = b.body
	case "console":
		continued := false
		for line := range strings.Lines(b.body) {
			if command, is := strings.CutPrefix(line, "$ "); is || continued {
				text += command
				continued = strings.HasSuffix(strings.TrimSpace(line), "\\")
			}
		}
	}
	if b.before != "" {
		text = b.before + "\n" + text
	}
	return text
}

// The README's commands lead where it says: the build, a replica, the lists; three replicas on one
// file; one of them killed, and the triggers go on.
func TestReadme(t *testing.T) {
	t.Parallel()
	r := newReader(t)
	seen := map[string]int{}
	killed := false
	for _, b := range blocks(t, "README.md") {
		seen[b.language]++
		s := script(b)
		if s == "" {
			continue
		}
		r.follow(b.at(), s)
		switch {
		case strings.HasPrefix(s, "go build"): // the verbs of the paragraph below it
			for _, list := range []string{"jobs", "triggers", "tasks", "pools"} {
				r.follow(b.at(), "bin/scheduler "+list+" list\n")
			}
			r.open("127.0.0.1:8080")
			r.stop()
		case strings.Contains(s, "kill -9"):
			a := r.running["a"]
			if a == nil {
				t.Fatal("there is no replica a")
			}
			killed = true
			if !a.Ended(5*time.Second) || a.Cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
				t.Error("the replica a was not killed")
			}
			r.goesOn("127.0.0.1:8081", "mine", 5*time.Second)
			r.lost("127.0.0.1:8081", "slow")
		}
	}
	if seen["sh"] < 4 || seen["yaml"] < 1 || len(r.running) < 3 || !killed {
		t.Errorf("the README has %v; %d replicas were started; one was killed: %v", seen, len(r.running), killed)
	}
}

var listen = regexp.MustCompile(`(127\.0\.0\.1|localhost):(80[0-9]{2})`)

// adapt replaces the ports of a page by free ones.
func (r *reader) adapt(text string) string {
	return listen.ReplaceAllStringFunc(text, func(written string) string {
		port := written[strings.LastIndexByte(written, ':')+1:]
		if r.ports[port] == "" {
			r.ports[port] = servers.FreeAddress(r.t)
		}
		return r.ports[port]
	})
}

// open requests the page at an address as a browser would.
func (r *reader) open(addr string) {
	r.t.Helper()
	answer, err := http.Get("http://" + r.adapt(addr))
	if err != nil {
		r.t.Fatal(err)
	}
	defer answer.Body.Close()
	if kind := answer.Header.Get("Content-Type"); answer.StatusCode != http.StatusOK || !strings.HasPrefix(kind, "text/html") {
		r.t.Errorf("the page is %s, %s", answer.Status, kind)
	}
}

// goesOn waits until a job has run twice more, and holds that no due time is missing or there twice.
func (r *reader) goesOn(addr, job string, every time.Duration) {
	r.t.Helper()
	c, err := client.New("http://"+r.adapt(addr), client.Options{})
	if err != nil {
		r.t.Fatal(err)
	}
	began := time.Now()
	var rows []jobs.Trigger
	program.Within(r.t, 6*every, job+" goes on", func() bool {
		list, err := c.Triggers(r.t.Context(), wire.TriggerFilter{Job: job})
		rows = list.Items // the latest first
		later := slices.IndexFunc(rows, func(row jobs.Trigger) bool { return !row.At.After(began) })
		return err == nil && later >= 2 && rows[1].Outcome == jobs.Ran
	})
	for i, row := range rows[1:] {
		last := row.At
		if !row.Until.IsZero() {
			last = row.Until
		}
		if next := rows[i].At; !next.Equal(last.Add(every)) {
			r.t.Errorf("after %s of %v comes %v", job, last, next)
		}
	}
}

// lost waits until the one run of a job is recorded as lost.
func (r *reader) lost(addr, job string) {
	r.t.Helper()
	c, err := client.New("http://"+r.adapt(addr), client.Options{})
	if err != nil {
		r.t.Fatal(err)
	}
	program.Within(r.t, 30*time.Second, job+" is lost", func() bool {
		list, err := c.Triggers(r.t.Context(), wire.TriggerFilter{Job: job})
		return err == nil && len(list.Items) == 1 && list.Items[0].Outcome == jobs.Lost
	})
}

// install puts the program where a page's first command would build it.
func (r *reader) install() {
	r.t.Helper()
	if err := os.Symlink(program.Build(r.t, "../../cmd/scheduler"), filepath.Join(r.dir, "bin", "scheduler")); err != nil {
		r.t.Fatal(err)
	}
}
