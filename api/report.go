package api

import (
	"encoding/json"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// report is what a worker says of its attempt beside its end. It is kept by the rules that hold for handlers.
type report struct {
	done *float64
	text string
	raw  json.RawMessage

	kept wire.WorkerProgress
}

// progress is how far the attempt has come; nil: it does not say.
func (r *report) progress() (*wire.WorkerProgress, error) {
	if r.done == nil {
		if r.text != "" {
			return nil, invalid("progress_text", "is about a progress; send progress, from 0 to 1, too")
		}
		return nil, nil
	}
	if *r.done < 0 || *r.done > 1 {
		return nil, invalid("progress", "%v is out of range 0–1, of which 1 is all", *r.done)
	}
	if err := (jobs.Task{Reporter: r}).Progress(*r.done, r.text); err != nil {
		return nil, invalid("progress", "%s", err)
	}
	return &r.kept, nil
}

// result is that of the task; nil: none.
func (r *report) result() (json.RawMessage, error) {
	if r.raw == nil || string(r.raw) == "null" {
		return nil, nil
	}
	text := r.raw
	r.raw = nil
	if err := (jobs.Task{Reporter: r}).SetResult(text); err != nil {
		return nil, invalid("result", "%s", err)
	}
	return r.raw, nil
}

// ReportProgress implements jobs.Reporter.
func (r *report) ReportProgress(done float64, text string) {
	r.kept = wire.WorkerProgress{Done: done, Text: text}
}

// ReportResult implements jobs.Reporter.
func (r *report) ReportResult(result json.RawMessage) error {
	r.raw = result
	return nil
}
