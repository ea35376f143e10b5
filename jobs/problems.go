package jobs

import (
	"errors"
	"fmt"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/naming"
)

// FieldError is bad input in one field. It is [ErrInvalid].
type FieldError struct {
	Path    string // "jobs.nightly.schedule", "tags[2]"
	Problem string // what is wrong, and after a ";" what to do
}

func (e *FieldError) Error() string { return e.Path + ": " + e.Problem }
func (e *FieldError) Unwrap() error { return ErrInvalid }

// problems collects what is wrong, so that all of it is said at once.
type problems struct {
	all  []error
	read map[read]wasRead // expressions without H that were read
}

// read is an expression in a zone.
type read struct {
	spec string
	zone *time.Location
}

// wasRead is what came of it.
type wasRead struct {
	due dueBy
	err error
}

func (p *problems) add(path, format string, args ...any) {
	p.all = append(p.all, &FieldError{path, fmt.Sprintf(format, args...)})
}

func (p *problems) err() error { return errors.Join(p.all...) }

func (p *problems) name(path, name string) {
	if problem := naming.Problem(name); problem != "" {
		p.add(path, "%s", problem)
	}
}
