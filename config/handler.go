package config

import (
	"fmt"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/lockstep-scheduler/lockstep/internal/limits"
	"github.com/lockstep-scheduler/lockstep/jobs/exechandler"
	"github.com/lockstep-scheduler/lockstep/jobs/httphandler"
)

// handlerDraft are the handler keys of a job, pool or kind.
type handlerDraft struct {
	command    []string
	shell      string
	http       *httphandler.Request
	function   string
	env        map[string]string
	passEnv    []string
	envFiles   []string
	workingDir string
	stopGrace  time.Duration
	limits     exechandler.Limits
}

var (
	// doingKeys select the handler; at most one is allowed.
	doingKeys = schema[handlerDraft]{
		"command": func(r *reader, n *yaml.Node, d *handlerDraft) { d.command = r.readCommand(n) },
		"shell":   rawField(func(d *handlerDraft) *string { return &d.shell }),
		"http": func(r *reader, n *yaml.Node, d *handlerDraft) {
			d.http = &httphandler.Request{}
			object(r, n, requestKeys, d.http)
		},
		"func": textField(func(d *handlerDraft) *string { return &d.function }),
	}
	// processKeys are for command and shell.
	processKeys = schema[handlerDraft]{
		"env":               mapField(func(d *handlerDraft) *map[string]string { return &d.env }),
		"pass_env":          listField(func(d *handlerDraft) *[]string { return &d.passEnv }),
		"env_file":          readEnvFiles,
		"working_dir":       field(func(r *reader, n *yaml.Node) (string, bool) { path, ok := r.given(n); return r.absolute(path), ok }, func(d *handlerDraft) *string { return &d.workingDir }),
		"stop_grace_period": durationField(positive, func(d *handlerDraft) *time.Duration { return &d.stopGrace }),
		"limits":            section(limitsKeys, func(d *handlerDraft) *exechandler.Limits { return &d.limits }),
	}
	handlerKeys = join(doingKeys, processKeys)
	// poolDoingKeys and poolHandlerKeys are the same for pools and their kinds, whose tasks may be for workers.
	poolDoingKeys = join(doingKeys, schema[handlerDraft]{
		"worker": func(r *reader, n *yaml.Node, d *handlerDraft) {
			if r.isMap(n, "write worker: {}") {
				object(r, n, schema[handlerDraft]{}, d)
			}
		},
	})
	poolHandlerKeys = join(poolDoingKeys, processKeys)
)

// limitsKeys say what a command may take of the machine.
var limitsKeys = schema[exechandler.Limits]{
	"cpu":    field((*reader).processors, func(l *exechandler.Limits) *float64 { return &l.CPU }),
	"memory": field((*reader).memory, func(l *exechandler.Limits) *int64 { return &l.Memory }),
	"nice":   numberField(0, limits.Nice, func(l *exechandler.Limits) *int { return &l.Nice }),
}

// memory reads how much memory a command may have.
func (r *reader) memory(n *yaml.Node) (int64, bool) {
	size, ok := r.size(n)
	if ok && size < limits.LeastMemory {
		r.fail(deref(n), quote(n)+" is too little for any program", fmt.Sprintf("at least %dMiB", limits.LeastMemory>>20))
		return 0, false
	}
	return int64(size), ok
}

var requestKeys = schema[httphandler.Request]{
	"method":        choiceField(methods, func(d *httphandler.Request) *string { return &d.Method }),
	"url":           textField(func(d *httphandler.Request) *string { return &d.URL }),
	"headers":       mapField(func(d *httphandler.Request) *map[string]string { return &d.Headers }),
	"body":          rawField(func(d *httphandler.Request) *string { return &d.Body }),
	"expect_status": readStatuses,
	"timeout":       durationField(positive, func(d *httphandler.Request) *time.Duration { return &d.Timeout }),
}

var methods = []string{"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"}

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
		paths[i] = r.absolute(path)
		r.options.opened(paths[i], nil)
	}
	d.envFiles = paths
}

// readStatuses takes one status or a list.
func readStatuses(r *reader, n *yaml.Node, d *httphandler.Request) {
	d.ExpectStatus = nil
	add := func(n *yaml.Node) {
		if status, ok := r.number(n, 200, 599); ok {
			d.ExpectStatus = append(d.ExpectStatus, status)
		}
	}
	if deref(n).Kind == yaml.ScalarNode && !empty(n) {
		add(n)
		return
	}
	r.items(n, add)
}
