//go:build race

package summary

// buildFlags are those of this test, so that what is built for it is used again.
var buildFlags = []string{"-race"}
