package wire

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// JobCatchUp is a jobs.CatchUp in JSON. Durations are Go durations.
type JobCatchUp struct {
	Policy jobs.CatchUpPolicy `json:"policy"`
	Window string             `json:"window,omitempty"` // absent: policy none has none
	Limit  int                `json:"limit,omitempty"`  // of policy all alone
	Grace  string             `json:"grace"`
}

// NewJobCatchUp leaves out what the policy does not use. Defaults of c are filled in.
func NewJobCatchUp(c jobs.CatchUp) *JobCatchUp {
	is := JobCatchUp{Policy: c.Policy, Grace: c.Grace.String()}
	if c.Policy != jobs.CatchUpNone {
		is.Window = c.Window.String()
	}
	if c.Policy == jobs.CatchUpAll {
		is.Limit = c.Limit
	}
	return &is
}

// String is for people: "all of the last 24h0m0s, 10 at most; late after 10s".
func (c *JobCatchUp) String() string {
	if c == nil {
		return ""
	}
	text := string(c.Policy)
	if c.Window != "" {
		text += " of the last " + c.Window
	}
	if c.Limit > 0 {
		text += fmt.Sprintf(", %d at most", c.Limit)
	}
	return text + "; late after " + c.Grace
}

// JobRetries are jobs.Retries in JSON.
type JobRetries struct {
	Limit      int    `json:"limit"`
	Backoff    string `json:"backoff"` // Go durations
	MaxBackoff string `json:"max_backoff"`
	On         []int  `json:"on,omitempty"` // absent: after any failure
}

// NewJobRetries is nil where no failed attempt is retried. Defaults of r are filled in.
func NewJobRetries(r jobs.Retries) *JobRetries {
	if r.Limit <= 0 {
		return nil
	}
	return &JobRetries{r.Limit, r.Backoff.String(), r.MaxBackoff.String(), r.On}
}

// String is for people: "up to 2, after 1s to 15m0s; only on 1, 75".
func (r *JobRetries) String() string {
	if r == nil {
		return "none"
	}
	text := fmt.Sprintf("up to %d, after %s to %s", r.Limit, r.Backoff, r.MaxBackoff)
	if len(r.On) > 0 {
		codes := make([]string, len(r.On))
		for i, code := range r.On {
			codes[i] = strconv.Itoa(code)
		}
		text += "; only on " + strings.Join(codes, ", ")
	}
	return text
}

// JobLock is a jobs.Lock in JSON.
type JobLock struct {
	Key    string        `json:"key"` // as it is written, with the fields of the payload that it takes
	Mode   jobs.LockMode `json:"mode"`
	Limit  int           `json:"limit,omitempty"` // how many may hold it together, if more than one
	OnLost jobs.LockLost `json:"on_lost"`
}

// NewJobLocks are the locks of [jobs.Set.LocksOf].
func NewJobLocks(locks []jobs.Lock) []JobLock {
	var all []JobLock
	for _, l := range locks {
		is := JobLock{Key: l.Key, Mode: l.Mode, OnLost: l.OnLost}
		if l.Limit > 1 {
			is.Limit = l.Limit
		}
		all = append(all, is)
	}
	return all
}

// String is for people: "uplink, 3 at once" or "schema, shared, goes on without it".
func (l JobLock) String() string {
	text := l.Key
	if l.Mode == jobs.LockShared {
		text += ", shared"
	}
	if l.Limit > 1 {
		text += fmt.Sprintf(", %d at once", l.Limit)
	}
	if l.OnLost == jobs.LockContinues {
		text += ", goes on without it if it is lost"
	}
	return text
}

// JobNotify is a jobs.Notify in JSON.
type JobNotify struct {
	On      []jobs.Event `json:"on,omitempty"` // absent: no event is told
	Handler string       `json:"handler"`      // what tells, for people
}

// NewJobNotify is nil where nothing is sent. A described handler is what describe says.
func NewJobNotify(n jobs.Notify, describe func(jobs.Handler) string) *JobNotify {
	if n.Handler == nil {
		return nil
	}
	return &JobNotify{n.EventsOfJobs(), describe(n.Handler)}
}

// String is for people: "of failed, lost by POST http://127.0.0.1:9000/".
func (n *JobNotify) String() string {
	if n == nil {
		return ""
	}
	if len(n.On) == 0 {
		return "of no event, by " + n.Handler
	}
	on := make([]string, len(n.On))
	for i, e := range n.On {
		on[i] = string(e)
	}
	return fmt.Sprintf("of %s, by %s", strings.Join(on, ", "), n.Handler)
}

// JobOutput is a jobs.Output in JSON.
type JobOutput struct {
	Keep     int    `json:"keep,omitempty"` // bytes; absent: what the replica keeps
	File     string `json:"file,omitempty"`
	FileSize int    `json:"file_size,omitempty"` // bytes
	Files    int    `json:"files,omitempty"`
}

// NewJobOutput is nil where nothing is said.
func NewJobOutput(o jobs.Output) *JobOutput {
	if o.Keep == 0 && o.File == "" {
		return nil
	}
	is := JobOutput{Keep: o.Keep, File: o.File}
	if o.File != "" {
		is.FileSize, is.Files = o.FileSize, o.Files
	}
	return &is
}

// String is for people: "keeps 65536 bytes; /var/log/{{.job}}.log, 5 of 10485760 bytes".
func (o *JobOutput) String() string {
	if o == nil {
		return ""
	}
	var parts []string
	if o.Keep > 0 {
		parts = append(parts, fmt.Sprintf("keeps %d bytes", o.Keep))
	}
	if o.File != "" {
		parts = append(parts, fmt.Sprintf("%s, and %d before it, of %d bytes", o.File, o.Files, o.FileSize))
	}
	return strings.Join(parts, "; ")
}

// JobExpect is a jobs.Expect in JSON: Go durations from when a due time starts.
type JobExpect struct {
	StartWithin  string `json:"start_within,omitempty"`
	FinishWithin string `json:"finish_within,omitempty"`
}

// NewJobExpect is nil where nothing is expected.
func NewJobExpect(e jobs.Expect) *JobExpect {
	if e == (jobs.Expect{}) {
		return nil
	}
	var is JobExpect
	if e.StartWithin > 0 {
		is.StartWithin = e.StartWithin.String()
	}
	if e.FinishWithin > 0 {
		is.FinishWithin = e.FinishWithin.String()
	}
	return &is
}

// String is for people: "starts within 1m0s, ends within 2h0m0s".
func (e *JobExpect) String() string {
	if e == nil {
		return ""
	}
	var parts []string
	if e.StartWithin != "" {
		parts = append(parts, "starts within "+e.StartWithin)
	}
	if e.FinishWithin != "" {
		parts = append(parts, "ends within "+e.FinishWithin)
	}
	return strings.Join(parts, ", ")
}
