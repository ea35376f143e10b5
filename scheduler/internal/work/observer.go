package work

import (
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// Observer is told what the work of a replica does, when it does it.
type Observer interface {
	Claimed(c jobs.ClaimTry)
	Started(t jobs.Task, lag time.Duration)
	Ended(t jobs.Task, end jobs.State, took time.Duration)
	Recorded(t jobs.Task, end jobs.State, late bool)
	HandedBack(t jobs.Task)
	Fenced(t jobs.Task, end jobs.State)
	Reaped(t jobs.Task, replica string)
}
