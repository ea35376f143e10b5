package config

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// unable stands in for a handler that was refused, so that one mistake is reported once.
type unable struct{}

func (unable) Run(context.Context, jobs.Task, io.Writer) error { return errors.ErrUnsupported }

// build makes the handler that a draft describes.
func (r *reader) build(doing string, d handlerDraft) (jobs.Handler, error) {
	return unable{}, nil
}

// checkSet lets package jobs judge what was read, and finds where each problem stands.
func (r *reader) checkSet() {
	set := &r.c.Set
	if len(set.Jobs) == 0 && len(set.Pools) == 0 {
		r.warnings.add(r.main.at(r.main.root), "", "there are no jobs and no pools", "")
	}
	for _, err := range flatten(set.Validate()) {
		field := (*jobs.FieldError)(nil)
		if !errors.As(err, &field) {
			r.refuse("", err.Error(), "")
			continue
		}
		if at := r.locate(field.Path); !r.doubtful[field.Path] && !r.report.has(at) {
			problem, hint, _ := strings.Cut(field.Problem, "; ")
			r.report.add(at, field.Path, problem, hint)
		}
	}
}

// flatten returns the parts of a joined error.
func flatten(err error) []error {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []error
		for _, part := range joined.Unwrap() {
			all = append(all, flatten(part)...)
		}
		return all
	}
	return []error{err}
}

var _ = fmt.Sprint
var _ = exec.LookPath
var _ = filepath.Join
var _ = strings.Cut
