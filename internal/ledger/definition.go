package ledger

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// Definitions is the part of a replica's configuration that the store keeps.
type Definitions struct {
	Jobs  []JobDef // sorted by name
	Pools []PoolDef
	Now   Judge // nil: the database's time is not checked
	// Shown is what the history keeps of a job's definition, JSON without secrets; nil: nothing but that there was one.
	Shown func(job string) json.RawMessage
	// OvertakenBy returns the rows of due times that an edit leaves undecided, see Overtaken, if it can read the definition that governed.
	OvertakenBy func(Overtaken) (rows []jobs.Trigger, known bool)

	Hash     string    // Content, if the caller has computed it before
	At       time.Time // when the file was written that they come from, for people; zero: unknown
	Activate bool      // Load gives the content a new number, by which it becomes the newest
	Number   int64     // of Assert: the number that Load returned; 0: whatever the session has

	// Since is the number of what Assert has made hold for the same session before, 0 if it has not; Changed are the names, sorted, of the jobs that this
	// has otherwise than that. While no number was given out since then but this one, nobody has written the other jobs, and Assert does not read
	// their rows.
	Since   int64
	Changed []string
}

// Followed reports whether the rows of jobs beside Changed are as they were when Since was asserted, if last is the number that was given out last. A session with a
// lower number than a live one has does not write them; those with Since or Number write what they are; and nobody ever had a higher one.
func (d Definitions) Followed(last int64) bool {
	return d.Since != 0 && last == d.Number && d.Number-d.Since <= 1 && d.Number >= d.Since
}

// Content is the hash of what the jobs and pools are, in hex: configurations with the same one are the same.
func (d Definitions) Content() string {
	if d.Hash != "" {
		return d.Hash
	}
	sum := sha256.New()
	text := bufio.NewWriter(sum) // which has no errors
	for _, j := range d.Jobs {
		for _, part := range [...]string{`["`, j.Name, `","`, j.Hash, `","`, j.Schedule, "\"]\n"} { // JSON, without anything that is to be escaped
			_, _ = text.WriteString(part)
		}
	}
	_ = text.Flush()
	pools := json.NewEncoder(sum)
	for _, p := range d.Pools {
		_ = pools.Encode(p) // what it has always encodes
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// Assertion is what became of an attempt to make definitions hold.
type Assertion struct {
	Governs bool // they hold
	// Followed: they follow what the session has asserted before, and only the rows of Definitions.Changed were looked at.
	Followed bool
	// Jobs are the names, sorted, of those that the governing configuration has otherwise, or that only one of the
	// two has; nil where Governs.
	Jobs []string
	// Pools are those that it has otherwise, or that only one of the two has, by name; nil where Governs.
	Pools []OtherPool
}

// OtherPool is a pool as its row defines it: what a replica goes by that has it otherwise.
type OtherPool struct {
	Name       string
	Hash       string // "": no live configuration has it
	MaxRunning int
	Rate       jobs.Rate
	ByKey      bool              // it has limits or an order by the tasks' keys
	Kinds      map[string]string // as in PoolDef; nil: any, or the program that governs does not say
}

// JobDef is one job's row.
type JobDef struct {
	Name     string
	Stripe   int    // 0 … 63
	Hash     string // of the whole definition
	Schedule string // hash of what decides due times alone; a change moves the cursor to now: edits never fire retroactively
	// SuspendAfter suspends the job when so many of its runs have failed in a row; 0: it does not.
	SuspendAfter int
	// Next returns when to decide what is due after t, zero if nothing is: at its first due time, or when calendars let that run.
	Next func(t time.Time) time.Time
	// Due returns, of a job with jitter, the due time that starts at Next of the same time; zero: Next is none's start. Nil: the job has no jitter.
	Due func(t time.Time) time.Time
}

// Coming is when to decide what is due after a cursor, zero if nothing is, and the due time that starts then, if the job has jitter.
func (d JobDef) Coming(cursor time.Time) (due, next time.Time) {
	if d.Due != nil {
		due = d.Due(cursor)
	}
	return due, d.Next(cursor)
}

// PoolDef is one pool's row. Its policies hold for tasks from their next claim on.
type PoolDef struct {
	Name        string
	Hash        string
	MaxRunning  int
	Rate        jobs.Rate
	Burst       int
	PerKey      jobs.KeyLimits
	PerKind     map[string]jobs.KindLimits
	Order       jobs.Order
	Fair        *jobs.Fair
	MaxAttempts int
	Retry       bool // on_lost: retry
	LostLimit   int  // how many attempts of a task may be lost then; 0: limits.Losses
	// Kinds are those of the tasks that it has a handler for, and what tells the handler from others, see
	// [jobs.Pool.HandlerHashes]; "" is for tasks without a kind. Nil: any.
	Kinds map[string]string
}

// KeyRules is what the pool has by key and kind.
func (d PoolDef) KeyRules() KeyRules { return KeyRules{d.PerKey, d.PerKind, d.Order, d.Fair} }

// Upcoming is one job's next due time as its row has it.
type Upcoming struct {
	Job    string
	NextAt time.Time // when its trigger starts
	Waits  bool      // for its slot: NextAt is when to look again
}
