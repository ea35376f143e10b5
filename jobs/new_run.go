package jobs

import (
	"encoding/json"

	"github.com/lockstep-scheduler/lockstep/internal/limits"
	"github.com/lockstep-scheduler/lockstep/internal/naming"
)

// NewRun is what a user says of a run of a job by hand. The zero NewRun is one as the job is defined.
type NewRun struct {
	Payload any    // in place of the job's, encoded as that of a NewTask, and checked against the job's Params; nil: the job's
	By      string // who asks for it, for people, at most 255 bytes
	Force   string // the lost attempt that is known to have ended: the Force of a [*LostError]
}

// Encode checks the run and returns its payload as compact JSON; nil if it is the job's. Problems are joined [*FieldError]s. The job's
// Params are not known here.
func (r NewRun) Encode() (json.RawMessage, error) {
	var p problems
	payload := p.payload("payload", r.Payload)
	if len(r.By) > limits.By || !naming.Printable(r.By) {
		p.add("by", "must be at most %d bytes of printable text", limits.By)
	}
	if err := p.err(); err != nil {
		return nil, err
	}
	return payload, nil
}
