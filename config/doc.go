// Package config reads the scheduler's YAML file into a [Config]: how a replica is run, and the
// [jobs.Set] that a Go program would write by hand.
//
// It is strict. Unknown keys, values of the wrong kind, names that exist twice, and settings that
// contradict each other are errors; all of them are reported at once, each with file, line, column
// and what to do ([Errors]). A key without meaning would be a job that does not run, and no error.
//
// The package reads files and nothing else of its process: the environment is handed in, and
// servers are not contacted.
package config

//go:generate go test -count=1 -run ^TestReferenceIsFresh$ -update .
