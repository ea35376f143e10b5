package config

import (
	"errors"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/lockstep-scheduler/lockstep/internal/trustedfile"
)

// resolve is a path from where the process is; a relative one starts at the folder of the file being read.
func (r *reader) resolve(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(r.file.dir, path)
}

// absolute is resolve for a path that is a part of a definition. The same file gives the same definitions, however its own path was written, and
// from whatever folder it is read.
func (r *reader) absolute(path string) string {
	path = r.resolve(path)
	if full, err := filepath.Abs(path); err == nil {
		return full
	}
	return path // the folder of the process is gone
}

// pathField reads the path of a file that is opened later. Empty means absent.
func pathField[T any](place func(*T) *string) read[T] { return field((*reader).filePath, place) }

func (r *reader) filePath(n *yaml.Node) (string, bool) {
	path, ok := r.given(n)
	return r.resolve(path), ok
}

// readFile reads a file that a key names, for the value at n.
func (r *reader) readFile(n *yaml.Node, path string, rule trustedfile.Rule) (trustedfile.File, bool) {
	file, err := r.options.read(path, rule)
	if bad := (*trustedfile.Error)(nil); errors.As(err, &bad) {
		r.fail(n, path+": "+bad.Problem, bad.Remedy)
	}
	return file, err == nil
}

// readIncluded is readFile for a file of include, which may be named by the folder that it is in.
func (r *reader) readIncluded(n *yaml.Node, path string, limit int64) (trustedfile.File, bool) {
	file, err := r.options.read(path, trustedfile.Rule{Limit: limit})
	if bad := (*trustedfile.Error)(nil); errors.As(err, &bad) {
		if bad.Folder {
			bad.Problem, bad.Remedy = "is a folder", "name the files in it, as in "+filepath.Join(path, "*.yaml")
		}
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

// maxSecret bounds a file that a key like password_file names, in bytes.
const maxSecret = 64 << 10

// secretField reads a text that errors never show. Empty means absent.
func secretField[T any](place func(*T) *string) read[T] { return field((*reader).given, place) }

// given is text, if it is not empty.
func (r *reader) given(n *yaml.Node) (string, bool) {
	value, ok := r.text(n)
	return value, ok && value != ""
}

// secretFileField reads a secret from the file at the path given, without the line break at its end.
func secretFileField[T any](place func(*T) *string) read[T] { return field((*reader).secret, place) }

func (r *reader) secret(n *yaml.Node) (string, bool) {
	path, ok := r.given(n)
	if !ok {
		return "", false
	}
	data, ok := r.secretFile(n, path)
	secret := strings.TrimRight(string(data), "\r\n")
	switch {
	case !ok:
	case secret == "":
		r.fail(n, r.resolve(path)+" is empty", "")
	case strings.ContainsAny(secret, "\r\n\x00"):
		r.fail(n, r.resolve(path)+" has more than one line", "")
	default:
		return secret, true
	}
	return "", false
}

// secretFile reads a file that only its owner should be able to read. Others' read permission is a warning, since
// container platforms mount secrets so; others' write permission is an error.
func (r *reader) secretFile(n *yaml.Node, path string) ([]byte, bool) {
	path = r.resolve(path)
	file, ok := r.readFile(n, path, trustedfile.Rule{Limit: maxSecret, Secret: true})
	if !ok {
		return nil, false
	}
	if exposed := file.Exposed(); exposed != "" {
		r.warn(n, path+" "+exposed, "chmod 600 "+path)
	}
	return file.Data, true
}
