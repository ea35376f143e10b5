// Package limits holds what a definition, a new task or a request may be at most. All limits are inclusive. The limit that a
// program needs is in jobs: MaxPayload.
package limits

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

// How much is kept of what an attempt says, in bytes. More than that is no error, it is cut.
const (
	Error  = 16 << 10 // the beginning of the error's text
	Output = 4 << 20  // whatever scheduler.Options.OutputLimit is
)
