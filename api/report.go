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

	output string
	at     *int64 // where it begins

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

// mostOutput is how much of an output comes with a heartbeat.
const mostOutput = 64 << 10

// written is what the attempt has written; nil: nothing.
func (r *report) written() (*wire.WorkerOutput, error) {
	switch {
	case r.output == "" && r.at == nil:
		return nil, nil
	case r.at == nil:
		return nil, invalid("output_at", "is missing; send how many bytes of the attempt's output, in UTF-8, came before these: 0 at first")
	case *r.at < 0 || *r.at > 1<<50:
		return nil, invalid("output_at", "%d is no number of bytes that an attempt has written", *r.at)
	case len(r.output) > mostOutput:
		return nil, invalid("output", "has %d bytes, at most %d are allowed; send the rest with the next heartbeats", len(r.output), mostOutput)
	}
	return &wire.WorkerOutput{At: *r.at, Text: r.output}, nil
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
