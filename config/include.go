package config

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/lockstep-scheduler/lockstep/internal/trustedfile"
)

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
			if seen[file] {
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
			read, ok := r.readFile(item, file, trustedfile.Rule{Limit: int64(maxSize - size)})
			if !ok {
				continue
			}
			size += len(read.Data)
			included := &source{name: file, dir: filepath.Dir(file), order: len(seen)}
			if parse(included, read.Data, &r.report) {
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
