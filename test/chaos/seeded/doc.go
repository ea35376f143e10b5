// Package seeded is the mistakes that the chaos harness must be able to catch: a harness that never
// finds anything may just be blind.
//
// Each is a change of the product's own source, kept as a diff in bugs/ and put in its place when a
// binary is built (go build -overlay). So the product has no hooks for it, and each mistake reads as
// what a careless author would have written. Where two guards back each other up, the mistake is in
// both: one that no run could notice would show nothing.
//
// A diff fits by its text and not by line numbers. Who changes the code beside it carries it along:
//
//	git apply -p0 test/chaos/seeded/bugs/NAME.diff      # or edit the source by hand, then
//	git diff --no-prefix > test/chaos/seeded/bugs/NAME.diff
//	git checkout .                                      # and keep the diff
package seeded
