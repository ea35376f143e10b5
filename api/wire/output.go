package wire

import "github.com/lockstep-scheduler/lockstep/jobs"

// OutputNews is what has come of the outputs of a task's attempts since a place in them, in order. While an attempt runs, what it writes arrives within
// about two seconds.
type OutputNews struct {
	Task  jobs.Task    `json:"task"` // without its payload and its result
	Items []OutputPart `json:"items"`
	Next  string       `json:"next"` // the place after them
	// Ended: the task has ended, and all of its outputs was told.
	Ended bool `json:"ended"`
}

// OutputPart is a part of the output of an attempt.
type OutputPart struct {
	Attempt int    `json:"attempt"`
	At      int64  `json:"at"`                 // how many bytes the attempt wrote before it
	LeftOut int64  `json:"left_out,omitempty"` // how many of these, before this part, were not kept
	Text    string `json:"text"`               // what was no UTF-8 is U+FFFD
}
