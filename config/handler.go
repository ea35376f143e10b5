package config

import (
	"fmt"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// handlerDraft is what a job, a pool or a kind says about what to do.
type handlerDraft struct {
	command    []string
	shell      string
	http       *requestDraft
	function   string
	env        map[string]string
	passEnv    []string
	envFiles   []string
	workingDir string
	stopGrace  time.Duration
}

// requestDraft is the http handler.
type requestDraft struct {
	method       string
	url          string
	headers      map[string]string
	body         string
	expectStatus []int
	timeout      time.Duration
}

var (
	// doingKeys say what to do; there must be at most one.
	doingKeys = schema[handlerDraft]{
		"command": func(r *reader, n *yaml.Node, d *handlerDraft) { d.command = r.readCommand(n) },
		"shell":   rawField(func(d *handlerDraft) *string { return &d.shell }),
		"http": func(r *reader, n *yaml.Node, d *handlerDraft) {
			d.http = &requestDraft{}
			object(r, n, requestKeys, d.http)
		},
		"func": textField(func(d *handlerDraft) *string { return &d.function }),
	}
	// processKeys say how a command or shell line is run.
	processKeys = schema[handlerDraft]{
		"env":               mapField(func(d *handlerDraft) *map[string]string { return &d.env }),
		"pass_env":          listField(func(d *handlerDraft) *[]string { return &d.passEnv }),
		"env_file":          readEnvFiles,
		"working_dir":       readWorkingDir,
		"stop_grace_period": durationField(positive, func(d *handlerDraft) *time.Duration { return &d.stopGrace }),
	}
	handlerKeys = join(doingKeys, processKeys)
)

var requestKeys = schema[requestDraft]{
	"method":        textField(func(d *requestDraft) *string { return &d.method }),
	"url":           textField(func(d *requestDraft) *string { return &d.url }),
	"headers":       mapField(func(d *requestDraft) *map[string]string { return &d.headers }),
	"body":          rawField(func(d *requestDraft) *string { return &d.body }),
	"expect_status": readStatuses,
	"timeout":       durationField(positive, func(d *requestDraft) *time.Duration { return &d.timeout }),
}

func (r *reader) readCommand(n *yaml.Node) []string {
	if n := deref(n); n.Kind == yaml.ScalarNode && !empty(n) {
		r.fail(n, "must be a list, one item per argument", fmt.Sprintf("shell: %s is a line for the shell", quote(n)))
		return nil
	}
	command := r.texts(n, r.raw)
	if len(command) == 0 && len(deref(n).Content) == 0 {
		r.fail(n, "has no program", `write ["/opt/backup.sh", "--full"]`)
	}
	return command
}

// readEnvFiles takes one path or a list.
func readEnvFiles(r *reader, n *yaml.Node, d *handlerDraft) {
	var paths []string
	if deref(n).Kind == yaml.ScalarNode {
		if path, ok := r.text(n); ok && path != "" {
			paths = []string{path}
		}
	} else {
		paths = r.texts(n, r.text)
	}
	for i, path := range paths {
		paths[i] = r.resolve(path)
	}
	d.envFiles = paths
}

func readWorkingDir(r *reader, n *yaml.Node, d *handlerDraft) {
	if path, ok := r.text(n); ok && path != "" {
		d.workingDir = r.resolve(path)
	}
}

// readStatuses takes one status or a list.
func readStatuses(r *reader, n *yaml.Node, d *requestDraft) {
	d.expectStatus = nil
	add := func(n *yaml.Node) {
		if status, ok := r.number(n, 100, 599); ok {
			d.expectStatus = append(d.expectStatus, status)
		}
	}
	if deref(n).Kind == yaml.ScalarNode && !empty(n) {
		add(n)
		return
	}
	r.items(n, add)
}

// handler makes what a draft says, or nil if it says nothing. Problems stand at n, which is where
// the job, pool or kind is; unable stands in for a handler that could not be made.
func (r *reader) handler(n *yaml.Node, d handlerDraft) jobs.Handler {
	var doing []string
	r.each(n, func(key, value *yaml.Node) {
		if _, ok := doingKeys[key.Value]; ok {
			doing = append(doing, key.Value)
		}
		if len(doing) == 2 {
			r.fail(key, fmt.Sprintf("stands beside %s", doing[0]), "there is one thing to do: command, shell, http or func")
		}
	})
	switch {
	case len(doing) > 1:
		return unable{}
	case len(doing) == 0 || doing[0] == "http" || doing[0] == "func":
		r.each(n, func(key, _ *yaml.Node) {
			if _, ok := processKeys[key.Value]; ok {
				r.fail(key, "is for a command or shell that stands beside it", "")
			}
		})
	}
	if len(doing) == 0 {
		return nil
	}
	h, err := r.build(doing[0], d)
	if err != nil {
		r.path = append(r.path, doing[0])
		for _, problem := range flatten(err) {
			r.fail(r.find(n, doing[0]), strings.TrimPrefix(problem.Error(), "invalid: "), "")
		}
		r.path = r.path[:len(r.path)-1]
		return unable{}
	}
	return h
}
