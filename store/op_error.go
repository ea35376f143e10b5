package store

import "errors"

// errNotMade: a zero Store has no database.
var errNotMade = errors.New("this Store was not made by store.New or store.Open")

// opError says which method of the store failed.
type opError struct {
	op  string
	err error
}

func (e *opError) Error() string { return "store: " + e.op + ": " + e.err.Error() }
func (e *opError) Unwrap() error { return e.err }

// Explain is what went wrong, for people who do not know what a store is.
func (e *opError) Explain() string { return e.err.Error() }
