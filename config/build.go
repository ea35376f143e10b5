package config

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/lockstep-scheduler/lockstep/internal/limits"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/exechandler"
	"github.com/lockstep-scheduler/lockstep/jobs/httphandler"
)

// unable replaces a handler that was refused, so that one mistake is reported once.
type unable struct{}

func (unable) Run(context.Context, jobs.Task, io.Writer) error { return errors.ErrUnsupported }

// Codes are all there are: what it would have been is not known.
func (unable) Codes() (low, high, timeout int) { return 1, limits.Code, 0 }

// handler returns the handler of a draft, nil if the draft has none, unable if it is wrong. n is the map of the job,
// pool or kind.
func (r *reader) handler(n *yaml.Node, d handlerDraft) jobs.Handler {
	return r.oneHandler(n, d, doingKeys, "there is one thing to do: command, shell, http or func")
}

// poolHandler is handler for a pool or kind.
func (r *reader) poolHandler(n *yaml.Node, d handlerDraft) jobs.Handler {
	return r.oneHandler(n, d, poolDoingKeys, "there is one thing to do: command, shell, http, func or worker")
}

// oneHandler is handler for the keys in among; hint is for a map with several of them.
func (r *reader) oneHandler(n *yaml.Node, d handlerDraft, among schema[handlerDraft], hint string) jobs.Handler {
	doing, value, ok := r.only(n, among, hint)
	if !ok {
		return unable{}
	}
	if doing != "command" && doing != "shell" {
		r.onlyForProcesses(n)
	}
	h, err := r.build(doing, d)
	if err != nil {
		r.blame(n, doing, value, err)
		h = unable{}
	}
	if doing == "command" && err == nil {
		r.within(doing, func() { r.seekProgram(value, d) })
	}
	return h
}

func (r *reader) onlyForProcesses(n *yaml.Node) {
	r.each(n, func(key, _ *yaml.Node) {
		if _, ok := processKeys[key.Value]; ok {
			r.fail(key, "is for a command or shell that stands beside it", "")
		}
	})
}

// only returns the one key of the map n that is in among, and its value; false, with hint in the error, if there are
// several.
func (r *reader) only(n *yaml.Node, among schema[handlerDraft], hint string) (doing string, value *yaml.Node, ok bool) {
	ok = true
	r.each(n, func(key, v *yaml.Node) {
		if _, is := among[key.Value]; !is {
			return
		}
		if doing != "" {
			r.fail(key, "stands beside "+doing, hint)
			ok = false
		}
		doing, value = key.Value, v
	})
	return doing, value, ok
}

// build returns the handler that a draft describes.
func (r *reader) build(doing string, d handlerDraft) (jobs.Handler, error) {
	switch doing {
	case "command", "shell":
		environ := r.options.Environ
		if len(d.passEnv) == 0 {
			environ = r.standard
		}
		return exechandler.New(exechandler.Command{
			Argv: d.command, Shell: d.shell, Env: d.env, PassEnv: d.passEnv, EnvFiles: d.envFiles,
			Dir: d.workingDir, StopGrace: d.stopGrace, Limits: d.limits, Environ: environ,
		})
	case "http", "webhook":
		if d.http == nil { // its value was refused
			return unable{}, nil
		}
		return httphandler.New(*d.http)
	case "worker":
		return jobs.Worker{}, nil
	case "func":
		h, known := r.options.Funcs[d.function]
		switch {
		case h != nil:
			return h, nil
		case known:
			return nil, fmt.Errorf("the function %q of this program is nil; its Funcs must have a handler", d.function)
		}
		if len(r.options.Funcs) == 0 {
			return nil, errors.New("this program has no functions; they are for programs that embed the scheduler")
		}
		return nil, fmt.Errorf("there is no function %q; there are %s", d.function, strings.Join(slices.Sorted(maps.Keys(r.options.Funcs)), ", "))
	}
	return nil, nil
}

// blame reports each problem of a handler's error at the key that it names, else at the handler's key. Values that were
// reported before are left out.
func (r *reader) blame(n *yaml.Node, doing string, value *yaml.Node, err error) {
	var complaints []func()
	for line := range strings.Lines(err.Error()) {
		text := strings.TrimPrefix(strings.TrimSpace(line), jobs.ErrInvalid.Error()+": ")
		at, where := doing, value
		key, rest, _ := strings.Cut(text, ": ")
		_, ofProcess := processKeys[key]
		_, ofRequest := requestKeys[key]
		switch {
		case doing == "webhook" && ofRequest:
			text = rest
		case doing == "http" && ofRequest:
			at, where, text = "http."+key, cmp.Or(r.find(value, key), value), rest
		case doing != "http" && ofProcess:
			at, where, text = key, cmp.Or(r.find(n, key), value), rest
		}
		if !r.blamed(where) {
			problem, hint, _ := strings.Cut(text, "; ")
			complaints = append(complaints, func() { r.within(at, func() { r.fail(where, problem, hint) }) })
		}
	}
	for _, complain := range complaints {
		complain()
	}
}

// blamed reports whether a problem of n, or of a part of it, was reported before.
func (r *reader) blamed(n *yaml.Node) bool {
	return r.report.has(r.file.at(n)) || slices.ContainsFunc(n.Content, r.blamed)
}

// standardOnly is the part of an environment that every command gets. A handler without pass_env needs no more, and
// there may be 100,000.
func standardOnly(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return !slices.Contains([]string{"PATH", "HOME", "LANG", "TZ"}, name)
	})
}

// seekProgram warns about a missing program. It may be installed later, or on other replicas' machines only.
func (r *reader) seekProgram(n *yaml.Node, d handlerDraft) {
	program := d.command[0]
	if strings.Contains(program, "/") {
		file := program
		if !filepath.IsAbs(file) {
			file = filepath.Join(d.workingDir, file)
		}
		if !r.executable(file) {
			r.warn(n, fmt.Sprintf("%s is no program on this machine", quoted(program)), "it does not exist, or is not executable (chmod +x)")
		}
		return
	}
	path, _ := r.env("PATH")
	path = cmp.Or(d.env["PATH"], path)
	if path == "" || len(d.envFiles) > 0 {
		return
	}
	for _, folder := range filepath.SplitList(path) {
		if r.executable(filepath.Join(folder, program)) {
			return
		}
	}
	r.warn(n, fmt.Sprintf("%s is not in PATH on this machine", quoted(program)), "")
}

// executable caches results: many jobs run one program.
func (r *reader) executable(file string) bool {
	found, known := r.programs[file]
	if !known {
		info, err := os.Stat(file)
		found = err == nil && info.Mode().IsRegular() && (info.Mode()&0o111 != 0 || filepath.Ext(file) == ".exe")
		r.programs[file] = found
	}
	return found
}
