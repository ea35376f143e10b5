package ledger

import (
	"github.com/lockstep-scheduler/lockstep/internal/clip"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// Chunk is a part of what a running attempt writes, written under its token: the bytes of its output from First on. A chunk of the attempt that begins
// at the same byte is replaced by it; others may overlap it, and have the same bytes there.
type Chunk struct {
	TaskID string
	Token  int64
	First  int64
	Data   []byte // at most ChunkBytes
	// Forget, if it is above HeadKept: of the attempt's chunks those go that begin between HeadKept and there.
	Forget int64
}

// What is kept of an output while its attempt runs: the first HeadKept bytes of it, and the last TailKept or more, at most three times as many.
const (
	ChunkBytes = 32 << 10
	HeadKept   = 32 << 10
	TailKept   = 64 << 10
)

// Forgotten is the Forget of a chunk that ends there.
func Forgotten(end int64) int64 { return max(end-TailKept, 0) }

// OutputAt is a place in the outputs of a task's attempts: what comes next of the one who follows them. The zero value is their beginning.
type OutputAt struct {
	Attempt int   // from 1; 0: the first
	Token   int64 // of the attempt, where it was running: one that is undone begins again
	Byte    int64 // of its output
}

// OutputNews is what comes next for the one who follows the outputs of a task.
type OutputNews struct {
	Task  jobs.Task // without its payload
	Parts []OutputPart
	Next  OutputAt
	// More: there is more that has come already. Of a task that has ended, all was told if there is not.
	More bool
}

// OutputPart is a part of an attempt's output.
type OutputPart struct {
	Attempt int
	clip.News
}
