package jobs

import "fmt"

// PauseOn pauses a pool whose attempts fail: as soon as at least that share of its last Of attempts have failed, in all replicas together.
// What was cancelled, snoozed, handed back or lost is no attempt here; one that timed out has failed. It is paused once, and stays so until
// it is resumed by hand; what ends before that does not count after it. The zero PauseOn never pauses.
type PauseOn struct {
	Failures int // percent of them, 1 to 100
	Of       int // attempts, 1 to 1,000
}

// Threshold is how many of the last Of attempts have to fail.
func (p PauseOn) Threshold() int { return (p.Of*p.Failures + 99) / 100 }

// String is the setting as definitions write it, for people.
func (p PauseOn) String() string { return fmt.Sprintf("{failures: %d%%, of: %d}", p.Failures, p.Of) }
