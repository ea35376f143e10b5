// Package limits holds what a definition, a new task or a request may be at most. All limits are inclusive. The limits that a
// program needs are in jobs: MaxPayload, MaxError and MaxOutput.
package limits

import "regexp"

const (
	PayloadDepth   = 100 // lists and objects within each other
	Priority       = 100 // and down to −100
	IdempotencyKey = 255 // bytes
	Tags           = 20
	Tag            = 64  // bytes
	By             = 255 // bytes
	Workers        = 10_000
	MaxRunning     = 1_000_000
	Retries        = 1000
	CatchUp        = 10_000
	Labels         = 64
	Description    = 4096 // bytes
)

// Losses is how many attempts of one task may be lost before it ends as lost.
const Losses = 3

// ListedPayload is the size in bytes above which a payload is left out of lists: a page of large payloads would be more than
// anybody reads. The task by itself has it whole.
const ListedPayload = 1 << 10

// Name is what names of jobs, pools, kinds and replicas look like. Names are unique without regard to case.
var Name = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]{0,63}$`)
