package history

import "time"

// What a file is that a replica is given.
const (
	EditNew     = "new"     // a content that is newer than all that replicas have
	EditOld     = "old"     // one that was replaced before
	EditInvalid = "invalid" // no configuration
)

// Edit is a line of edits.jsonl: a configuration file was written for a replica.
type Edit struct {
	At      time.Time // before it was written
	Replica string
	What    string
	Version int // of its content; the first configuration has 0
	// Due has the jobs that versions have in different ways, with their due times; one that it lacks is not in this version. An invalid file has none.
	Due map[string][]Every
}
