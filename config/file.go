package config

import (
	"errors"
	"path/filepath"

	"go.yaml.in/yaml/v3"

	"github.com/lockstep-scheduler/lockstep/internal/trustedfile"
)

// resolve makes a path absolute, relative to the folder of the file being read.
func (r *reader) resolve(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(r.file.dir, path)
}

// pathField reads the path of a file that is opened later. Empty means absent.
func pathField[T any](place func(*T) *string) read[T] { return field((*reader).filePath, place) }

func (r *reader) filePath(n *yaml.Node) (string, bool) {
	path, ok := r.given(n)
	return r.resolve(path), ok
}

// readFile reads a file that a key names, for the value at n.
func (r *reader) readFile(n *yaml.Node, path string, rule trustedfile.Rule) (trustedfile.File, bool) {
	file, err := rule.Read(path)
	if bad := (*trustedfile.Error)(nil); errors.As(err, &bad) {
		r.fail(n, path+": "+bad.Problem, bad.Remedy)
	}
	return file, err == nil
}

// unreadable converts the error of reading a file.
func unreadable(err error) Error {
	if bad := (*trustedfile.Error)(nil); errors.As(err, &bad) {
		return Error{File: bad.Path, Problem: bad.Problem, Hint: bad.Remedy}
	}
	return Error{Problem: err.Error()}
}
