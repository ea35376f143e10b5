package store

import "errors"

// errNotMade: a zero Store has no database.
var errNotMade = errors.New("this Store was not made by store.New or store.Open")

// opError names the method of the store that failed.
type opError struct {
	op  string
	err error
}

func (e *opError) Error() string { return "store: " + e.op + ": " + e.err.Error() }
func (e *opError) Unwrap() error { return e.err }

// Explain is the cause without the name of the method, for messages to users.
func (e *opError) Explain() string { return e.err.Error() }
