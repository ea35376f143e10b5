//go:build !linux

package sqlite

// Elsewhere a log is known to be another's by what the database says of itself alone.
func identify(string) (identity, error) { return identity{}, nil }
