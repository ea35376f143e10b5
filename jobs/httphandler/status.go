package httphandler

import (
	"net/http"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// unexpected is an answer whose status is not among those expected.
type unexpected struct{ *jobs.StatusError }

func (u unexpected) Is(target error) bool { return target == errStatus }
func (u unexpected) Unwrap() error        { return u.StatusError }

// unanswered is a request whose connection was not made, or broke before the whole answer had come. Its text is that of the error.
type unanswered struct{ error }

func (u unanswered) Unwrap() []error {
	return []error{u.error, &jobs.StatusError{Status: http.StatusBadGateway, NoAnswer: true, Text: u.Error()}}
}
