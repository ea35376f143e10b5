// Package limits has the limits of definitions, new tasks and requests. All are inclusive. The limit that a
// program needs is in jobs: MaxPayload.
package limits

import "time"

const (
	PayloadDepth   = 100 // nested lists and objects
	Exponent       = 400 // and down to −400, of a number that is compared with a schema
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
	PauseReason    = 500 // bytes
	Workers        = 10_000
	MaxRunning     = 1_000_000
	Rate           = 1_000_000 // starts in RatePerLeast to RatePerMost
	Burst          = 1_000_000
	SetLimits      = 1000 // kinds, and weights, that an override of limits has
	Retries        = 1000
	Code           = 599 // exit codes are up to 255, statuses of HTTP from 100
	CatchUp        = 10_000
	Labels         = 64
	Description    = 4096 // bytes
	Locks          = 16   // of a task
	Holders        = 10_000
	CalendarDates  = 10_000
	CalendarWeekly = 100
	JobCalendars   = 16
	LockService    = 220 // bytes; the store keeps 255, with the number of the lock protocol
)

// Limits of a pool's rate.
const (
	RatePerLeast = time.Second
	RatePerMost  = 24 * time.Hour
	RateFill     = 366 * 24 * time.Hour // in which the burst has to be full again
)

// Spread is how far the due times of a job may be spread.
const Spread = 24 * time.Hour

// UniqueLeast is the shortest time for which a task may be unique; the longest is duration.Max.
const UniqueLeast = time.Millisecond

// Losses is how many attempts of one task may be lost before it ends as lost, where nothing else is said, and LostLimit how many may be said.
const (
	Losses    = 3
	LostLimit = 100
	PauseOn   = 1000 // attempts whose ends may pause a pool
)

// SuspendAfter is how many runs in a row may be said to suspend a job.
const SuspendAfter = 1000

// Queue is how many runs of a job wait for a slot where nothing else is said, and QueueLimit how many may be said.
const (
	Queue      = 10
	QueueLimit = 1000
)

// ListedPayload is the size in bytes above which lists leave out a payload. The task itself has it whole.
const ListedPayload = 1 << 10

// Sizes in bytes at which the texts of an attempt are cut.
const (
	Error  = 16 << 10 // the beginning of the text of an error
	Output = 4 << 20  // whatever scheduler.Options.OutputLimit is
)

// Sizes of outputs in bytes, and how many files there may be.
const (
	KeptOutput      = 64 << 10 // where nothing else is said
	LeastOutput     = 1 << 10
	LeastOutputFile = 4 << 10
	OutputFile      = 1 << 30
	OutputFiles     = 1000
)

// Limits of what a command may take.
const (
	LeastCPU    = 0.01 // processors: what the kernel takes as a quota, 1 ms in 100
	CPU         = 1024.0
	LeastMemory = 4 << 20 // bytes
	Memory      = 1 << 50
	Nice        = 19
)
