package history

import "time"

// Process is a line of processes.jsonl, written when a replica's process has ended.
type Process struct {
	Replica string
	PID     int
	Started time.Time // the process
	Ready   time.Time // first seen ready; zero: never
	Told    time.Time // to drain; zero: never
	Ended   time.Time
	Exit    int    // exit code; -1 after a signal
	How     string // "killed", "group killed", "drained", "ended"
	Log     string // file below logs/
	Twin    bool   // a second process with the id of a running replica
}
