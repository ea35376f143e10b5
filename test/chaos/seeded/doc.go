// Package seeded has the bugs that the chaos harness must find: a harness that never finds anything may not
// look.
//
// Each is a change of the product's source, kept as a diff in bugs/ and applied when a binary is built (go
// build -overlay). So the product has no hooks, and each bug reads as a plausible mistake. Where two guards
// back each other up, the bug is in both: otherwise no run could notice it.
//
// A diff applies by its text and not by line numbers. A change of the code beside it updates the diff:
//
//	git apply -p0 test/chaos/seeded/bugs/NAME.diff      # or edit the source by hand, then
//	git diff --no-prefix > test/chaos/seeded/bugs/NAME.diff
//	git checkout .                                      # and keep the diff
package seeded
