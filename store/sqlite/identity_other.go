//go:build !linux

package sqlite

// On other systems only the content of the database shows that a log belongs to another one.
func identify(string) (identity, error) { return identity{}, nil }
