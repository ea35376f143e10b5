package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Error is one error or one warning.
type Error struct {
	File    string `json:"file"`             // as given, or as included
	Line    int    `json:"line,omitempty"`   // from 1; 0: the file as a whole
	Column  int    `json:"column,omitempty"` // from 1, in characters
	Path    string `json:"path,omitempty"`   // of the key: "jobs.backup.retries.limit"; may be empty
	Problem string `json:"problem"`
	Hint    string `json:"hint,omitempty"` // what to do; may be empty
}

// Error is "file:line:column: path: problem; hint".
func (e Error) Error() string {
	at, text := e.File, e.Problem
	if e.Line > 0 {
		at = fmt.Sprintf("%s:%d:%d", e.File, e.Line, e.Column)
	}
	if e.Path != "" {
		at += ": " + e.Path
	}
	if e.Hint != "" {
		text += "; " + e.Hint
	}
	return at + ": " + text
}

// Errors are all errors of a configuration, sorted by file and position. It is never empty when returned as an error.
type Errors []Error

// maxErrors bounds the errors kept: one broken anchor can affect 100,000 jobs.
const maxErrors = 1000

// Error is one line per error.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i := range e {
		lines[i] = e[i].Error()
	}
	if len(e) == maxErrors {
		lines = append(lines, fmt.Sprintf("… and perhaps more: only the first %d problems found are listed", maxErrors))
	}
	return strings.Join(lines, "\n")
}

// Unwrap lets errors.As find each Error.
func (e Errors) Unwrap() []error {
	all := make([]error, len(e))
	for i := range e {
		all[i] = e[i]
	}
	return all
}

// position is where a problem is.
type position struct {
	file         *source
	line, column int
}

// report collects problems; of several with the same position and text the first one counts.
type report struct {
	added int // how often a problem was added, also where it was there
	found []reported
	seen  map[problemAt]bool
	at    map[position]bool
}

type problemAt struct {
	position
	problem string
}

type reported struct {
	Error
	file *source
}

func (r *report) add(p position, path, problem, hint string) {
	r.added++
	if len(r.found) >= maxErrors || r.seen[problemAt{p, problem}] {
		return
	}
	if r.seen == nil {
		r.seen, r.at = map[problemAt]bool{}, map[position]bool{}
	}
	r.seen[problemAt{p, problem}] = true
	r.at[p] = true
	r.found = append(r.found, reported{
		Error: Error{File: p.file.name, Line: p.line, Column: p.column, Path: path, Problem: problem, Hint: hint},
		file:  p.file,
	})
}

// clone returns a report that can be added to on its own.
func (r *report) clone() report {
	return report{found: slices.Clone(r.found), seen: maps.Clone(r.seen), at: maps.Clone(r.at)}
}

// join adds what another report has besides.
func (r *report) join(other report) {
	for _, f := range other.found {
		p := position{f.file, f.Line, f.Column}
		r.add(p, f.Path, f.Problem, f.Hint)
	}
}

// has reports whether there is a problem at p.
func (r *report) has(p position) bool { return r.at[p] }

// errors returns the problems, sorted; nil for none.
func (r *report) errors() Errors {
	if len(r.found) == 0 {
		return nil
	}
	slices.SortStableFunc(r.found, func(a, b reported) int {
		return cmp.Or(cmp.Compare(a.file.order, b.file.order), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Path, b.Path))
	})
	all := make(Errors, len(r.found))
	for i, f := range r.found {
		all[i] = f.Error
	}
	return all
}
