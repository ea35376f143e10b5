// Package limits has the limits of definitions, new tasks and requests. All are inclusive. The limits that a
// program needs are in jobs: MaxPayload, MaxError and MaxOutput.
package limits

const (
	PayloadDepth   = 100 // nested lists and objects
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

// ListedPayload is the size in bytes above which lists leave out a payload. The task itself has it whole.
const ListedPayload = 1 << 10

// Name matches the names of jobs, pools, kinds and replicas. Names are unique without regard to case.
var Name = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]{0,63}$`)
