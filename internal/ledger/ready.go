package ledger

import "time"

// Ready is what a look at the store finds.
type Ready struct {
	Pools []string  // that have pending tasks which are due, by name
	Next  time.Time // when the next task will be due: in the past if there is more to promote, zero if none waits
	Ahead
}

// Ahead is what other looks at the store would find: while there is nothing, they are not worth a statement.
type Ahead struct {
	FirstDue time.Time // the first due time of all jobs that is not decided, of what time it may be; zero: no job has one
	Waits    bool      // a task waits for its time, or expires
	Running  bool      // a task runs, in whatever session
	Events   bool      // there are events
	Expected time.Time // the first time of an expectation, of what time it may be; zero: there is none
	Ordered  time.Time // the first time at which to look at an order, of what time it may be; zero: none is open
}
