// Package config reads the scheduler's YAML file into a [Config]: the settings of a replica, and the [jobs.Set] that a
// Go program would write by hand.
//
// It is strict. Unknown keys, values of the wrong kind, duplicate names and contradicting settings are errors. All are
// reported at once, each with file, line, column and advice ([Errors]).
//
// The package reads files only: the environment is an option, and no server is contacted.
package config

//go:generate go test -count=1 -run ^TestReferenceIsFresh$ -update .
