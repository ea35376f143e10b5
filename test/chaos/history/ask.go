package history

import "time"

// Ask is a line of asks.jsonl: one call of a client, written at its answer or timeout.
type Ask struct {
	What     string  // "enqueue", "run", "cancel", "retry", "pause", "resume", "suspend", "limit", "update", "skip", "cancel many", "retry many"
	Target   string  // pool, job or task id
	N        int     `json:",omitempty"` // of a skip: how many due times
	Key      string  // idempotency key of an enqueue
	Limits   *Limits `json:",omitempty"` // of a limit: max_running, or rate and burst; zero: those of the file
	Called   time.Time
	Returned time.Time
	Answer   string   // "ok", "refused" (it surely did not happen), "unknown"
	Status   int      // HTTP; 0: none
	TaskIDs  []string // acknowledged; of "retry many" the new ones
	Replica  string   // asked
	Error    string   // code of the answer, or of the connection
}
