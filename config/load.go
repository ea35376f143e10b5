package config

import (
	"fmt"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/lockstep-scheduler/lockstep/internal/trustedfile"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// Options are what files may refer to. The zero Options have no variables and no functions.
type Options struct {
	Environ []string                // as os.Environ returns it
	Funcs   map[string]jobs.Handler // for "func: name", in programs that embed the scheduler
}

// Load reads the configuration at path and the files that it includes. The error is an [Errors] with all problems, or
// the one of opening path: since it decides what runs, it must be a regular file that only root and this process's user
// own and can write. /dev/stdin and /dev/fd/N may be pipes.
func Load(path string, o Options) (*Config, error) {
	file, err := trustedfile.Rule{Limit: maxSize, Handed: true}.Read(path)
	if err != nil {
		return nil, Errors{unreadable(err)}
	}
	return LoadBytes(path, file.Data, o)
}

// LoadBytes is Load with the content of path. Relative paths start at path's folder.
func LoadBytes(path string, data []byte, o Options) (*Config, error) {
	if len(data) > maxSize {
		return nil, Errors{{File: path, Problem: fmt.Sprintf("is larger than %d MiB", maxSize>>20)}}
	}
	c := Default()
	c.Path = path
	c.Set.Jobs, c.Set.Pools = map[string]jobs.Job{}, map[string]jobs.Pool{}
	r := &reader{
		options: o,
		env:     lookup(o.Environ),
		file:    &source{name: path, dir: filepath.Dir(path), size: len(data)},
		c:       &c,
		pools:   names{kind: "pool", first: map[string]place{}},
		jobs:    names{kind: "job", first: map[string]place{}},

		standard: standardOnly(o.Environ),
		programs: map[string]bool{},
		doubtful: map[string]bool{},
	}
	r.load(data)
	c.Warnings = r.warnings.errors()
	if bad := r.report.errors(); bad != nil {
		return nil, bad
	}
	return &c, nil
}

// load reads everything into r.c.
func (r *reader) load(data []byte) {
	if !parse(r.file, data, &r.report) {
		return
	}
	r.main = r.file
	object(r, r.main.root, documentKeys, r.c)
	r.checkVersion(r.find(r.main.root, "version"))
	r.checkSettings()
	r.part(r.main, "defaults", r.readDefaults)
	files := []*source{r.main}
	r.part(r.main, "include", func(n *yaml.Node) { files = append(files, r.readIncludes(n)...) })
	for _, f := range files {
		r.part(f, "pools", r.readPools)
	}
	for _, f := range files {
		r.part(f, "jobs", r.readJobs)
	}
	r.file = r.main
	r.checkSet()
}

// part reads the value of one key of a file, if it is there.
func (r *reader) part(file *source, key string, read func(n *yaml.Node)) {
	r.file = file
	if n := r.find(file.root, key); n != nil {
		r.within(key, func() { read(n) })
	}
}

// lookup returns a function that looks up a variable; the last of several entries counts.
func lookup(environ []string) func(string) (string, bool) {
	variables := make(map[string]string, len(environ))
	for _, entry := range environ {
		if name, value, ok := strings.Cut(entry, "="); ok {
			variables[name] = value
		}
	}
	return func(name string) (string, bool) {
		value, set := variables[name]
		return value, set
	}
}
