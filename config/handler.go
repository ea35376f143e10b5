package config

import (
	"fmt"
	"time"

	"go.yaml.in/yaml/v3"
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
