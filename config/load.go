package config

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/lockstep-scheduler/lockstep/internal/trustedfile"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// Options are what files may refer to. The zero Options have no variables and no functions.
type Options struct {
	Environ []string                // as os.Environ returns it
	Funcs   map[string]jobs.Handler // for "func: name", in programs that embed the scheduler
	// Opened is told of each file that is read, and each pattern of files, also if it cannot be read; nil: nothing is. Their change may
	// change what Load returns. content is what was read, and what it returns is made of; of a pattern the paths that match it, one a line. It is
	// nil if the file was not read: it cannot be, or whoever runs a job reads it. A file may be told of more than once.
	Opened func(path string, content []byte)
	// Processors is how many goroutines parse and read the jobs of the file at the same time; 0: as many as there are processors. A replica that runs jobs
	// meanwhile leaves some to these.
	Processors int
	// Reloadable keeps with the Config what it was read from, about 100 bytes for each job, so that it can be Previous of a later load.
	Reloadable bool
	// Previous is what an earlier load with Reloadable or Previous has returned for the same path, and whose Set nobody has changed; nil: there is none. What Load returns is the same
	// with it, errors and warnings too. Jobs that are written as they were need not be read again; they share maps and handlers with those of Previous.
	Previous *Config
}

func (r *reader) atOnce() int { return cmp.Or(r.options.Processors, runtime.GOMAXPROCS(0)) }

// opened tells of a file or pattern.
func (o Options) opened(path string, content []byte) {
	if o.Opened != nil {
		o.Opened(path, content)
	}
}

// read reads a file, and tells of it.
func (o Options) read(path string, rule trustedfile.Rule) (trustedfile.File, error) {
	file, err := rule.Read(path)
	content := file.Data
	if content == nil && err == nil {
		content = []byte{}
	}
	o.opened(path, content)
	return file, err
}

// Load reads the configuration at path and the files that it includes. The error is an [Errors] with all problems, or
// the one of opening path: since it decides what runs, it must be a regular file that only root and this process's user
// own and can write. /dev/stdin and /dev/fd/N may be pipes.
func Load(path string, o Options) (*Config, error) {
	file, err := o.read(path, trustedfile.Rule{Limit: maxSize, Handed: true})
	if bad := (*trustedfile.Error)(nil); errors.As(err, &bad) && bad.Folder {
		return nil, Errors{{File: path, Problem: "is a folder", Hint: "name the configuration in it, as in " + filepath.Join(path, "lockstep.yaml")}}
	}
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
	o.Reloadable = o.Reloadable || o.Previous != nil
	if c := loadIncremental(path, data, o); c != nil {
		return c, nil
	}
	r := newReader(path, data, o)
	r.load(data)
	r.c.Warnings = r.warnings.errors()
	if bad := r.report.errors(); bad != nil {
		return nil, bad
	}
	return r.c, nil
}

func newReader(path string, data []byte, o Options) *reader {
	c := Default()
	c.Path = path
	c.Set.Jobs, c.Set.Pools = map[string]jobs.Job{}, map[string]jobs.Pool{}
	return &reader{
		options: o,
		env:     lookup(o.Environ),
		file:    &source{name: path, dir: filepath.Dir(path), size: len(data)},
		c:       &c,
		pools:   names{kind: "pool", first: map[string]place{}},
		jobs:    names{kind: "job", first: map[string]place{}},

		calendars: names{kind: "calendar", first: map[string]place{}},

		standard: standardOnly(o.Environ),
		programs: map[string]bool{},
		doubtful: map[string]bool{},
		volatile: map[string]bool{},
	}
}

// opens calls read, and reports whether that named files.
func (r *reader) opens(read func()) (named bool) {
	options := r.options
	r.options.Opened = func(path string, content []byte) {
		named = true
		options.opened(path, content)
	}
	read()
	r.options.Opened = options.Opened
	return named
}

// load reads everything into r.c.
func (r *reader) load(data []byte) {
	if !r.parse(r.file, data) {
		return
	}
	r.main = r.file
	object(r, r.main.root, documentKeys, r.c)
	r.c.Settings = settingsOf(r.main.root)
	r.checkVersion(r.find(r.main.root, "version"))
	r.checkSettings()
	r.part(r.main, "calendars", r.readCalendars)
	named := r.opens(func() { r.part(r.main, "defaults", r.readDefaults) }) // then each job has what is in those files
	files := []*source{r.main}
	r.part(r.main, "include", func(n *yaml.Node) { files = append(files, r.readIncludes(n)...) })
	if r.reuse != nil && r.reuse.whole {
		return
	}
	for _, f := range files {
		r.part(f, "pools", r.readPools)
	}
	for _, f := range files {
		r.part(f, "jobs", r.readJobs)
	}
	r.file = r.main
	if r.reuse != nil {
		if r.reuseJobs(files); r.reuse.whole {
			return
		}
	}
	warned := r.warnings.added
	r.checkSet()
	ofSet := r.warnings.added > warned // of which one may be about a job without a position
	if r.reuse != nil {
		r.reuse.whole = ofSet
	}
	if r.options.Reloadable && len(r.report.found) == 0 && !named && !ofSet {
		r.c.origin = r.remember(files)
	}
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

// maxFiles bounds the included files.
const maxFiles = 10_000

// readIncludes reads the files that a list of paths and patterns names, each file once, in the
// order of the list and by name within a pattern.
func (r *reader) readIncludes(n *yaml.Node) (all []*source) {
	size := r.main.size
	seen := map[string]bool{}
	r.items(n, func(item *yaml.Node) {
		pattern, ok := r.text(item)
		if !ok {
			return
		}
		files, ok := r.matches(item, pattern)
		if !ok {
			return
		}
		for _, file := range files {
			if seen[file] || r.reuse != nil && r.reuse.whole {
				continue
			}
			seen[file] = true
			if file == filepath.Clean(r.main.name) {
				r.fail(item, file+" would include itself", "keep included files in a folder of their own: jobs.d/*.yaml")
				continue
			}
			if len(seen) > maxFiles {
				r.fail(item, fmt.Sprintf("%s: more than %d files are included", file, maxFiles), "")
				continue
			}
			read, ok := r.readIncluded(item, file, int64(maxSize-size))
			if !ok {
				continue
			}
			size += len(read.Data)
			included := &source{name: file, dir: filepath.Dir(file), order: len(seen)}
			if r.parse(included, read.Data) {
				r.checkIncluded(included)
				all = append(all, included)
			}
		}
	})
	return all
}

// matches returns the files that one entry of the list names.
func (r *reader) matches(item *yaml.Node, pattern string) ([]string, bool) {
	full := r.resolve(pattern)
	if !strings.ContainsAny(pattern, "*?[") {
		return []string{filepath.Clean(full)}, true
	}
	files, err := filepath.Glob(full)
	r.options.opened(full, []byte(strings.Join(files, "\n")))
	if err != nil {
		r.fail(item, fmt.Sprintf("%q is not a pattern: %v", pattern, err), "")
		return nil, false
	}
	if len(files) == 0 {
		r.warn(item, fmt.Sprintf("no file matches %s", full), "")
	}
	slices.Sort(files)
	return files, true
}

// checkIncluded refuses keys other than pools and jobs.
func (r *reader) checkIncluded(file *source) {
	outerFile, outerPath := r.file, r.path
	r.file, r.path = file, nil
	defer func() { r.file, r.path = outerFile, outerPath }()
	r.each(file.root, func(key, _ *yaml.Node) {
		_, main := documentKeys[key.Value]
		switch {
		case key.Value == "pools", key.Value == "jobs":
		case key.Value == "include":
			r.fail(key, "an included file cannot include others", "list all files in the main file")
		case main:
			r.fail(key, "this key belongs into the main file", "an included file holds pools and jobs")
		case !strings.HasPrefix(key.Value, "x-"):
			r.unknown(key, []string{"jobs", "pools"})
		}
	})
}
