package wire

import "time"

// SuspendAction is what becomes of jobs.
type SuspendAction string

const (
	SuspendJobs SuspendAction = "suspend"
	ResumeJobs  SuspendAction = "resume"
)

// SuspendMany selects jobs by their labels, to suspend or resume them.
type SuspendMany struct {
	Labels map[string]string `json:"labels"`         // 1 to 64, all of which a job must have
	Until  time.Time         `json:"until,omitzero"` // of a suspension: it ends then by itself
	Reset  bool              `json:"reset,omitempty"`
	DryRun bool              `json:"dry_run,omitempty"` // nothing is changed
}

// SuspendedMany is what became of that.
type SuspendedMany struct {
	Matched int      `json:"matched"`           // jobs with these labels in the configuration of the replica that answers
	Done    int      `json:"done"`              // that were set, or would be with dry_run
	Jobs    []string `json:"jobs"`              // of those, the first 100 by name
	DryRun  bool     `json:"dry_run,omitempty"` // nothing was changed
}
