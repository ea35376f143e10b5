// Package limits has the limits of definitions, new tasks and requests. All are inclusive. The limit that a
// program needs is in jobs: MaxPayload.
package limits

import "time"

const (
	PayloadDepth   = 100 // nested lists and objects
	Priority       = 100 // and down to −100
	IdempotencyKey = 255 // bytes
	Key            = 128 // bytes
	Weight         = 1000
	UniqueBy       = 16  // names
	UniqueName     = 255 // bytes
	Tags           = 20
	Tag            = 64  // bytes
	By             = 255 // bytes
	ProgressText   = 200 // bytes
	Workers        = 10_000
	MaxRunning     = 1_000_000
	Rate           = 1_000_000 // starts in RatePerLeast to RatePerMost
	Burst          = 1_000_000
	SetLimits      = 1000 // kinds, and weights, that an override of limits has
	Retries        = 1000
	CatchUp        = 10_000
	Labels         = 64
	Description    = 4096 // bytes
	Locks          = 16   // of a task
	Holders        = 10_000
	LockService    = 220 // bytes; the store keeps 255, with the number of the lock protocol
)

// Limits of a pool's rate.
const (
	RatePerLeast = time.Second
	RatePerMost  = 24 * time.Hour
	RateFill     = 366 * 24 * time.Hour // in which the burst has to be full again
)

// UniqueLeast is the shortest time for which a task may be unique; the longest is duration.Max.
const UniqueLeast = time.Millisecond

// Losses is how many attempts of one task may be lost before it ends as lost, where nothing else is said, and LostLimit how many may be said.
const (
	Losses    = 3
	LostLimit = 100
	PauseOn   = 1000 // attempts whose ends may pause a pool
)

// ListedPayload is the size in bytes above which lists leave out a payload. The task itself has it whole.
const ListedPayload = 1 << 10

// Sizes in bytes at which the texts of an attempt are cut.
const (
	Error  = 16 << 10 // the beginning of the text of an error
	Output = 4 << 20  // whatever scheduler.Options.OutputLimit is
)
