// Package chaos runs replicas under load in a real cell, injects faults one after the other, and judges the
// history. See CONTRIBUTING.md for how to run it, and docs/reliability.md for the results.
//
//	open the cell ──▶ calm ──▶ strike ──▶ hold ──▶ heal ──▶ wait until ready ──▶ … ──▶ quiesce ──▶ judge
//	                   ▲                                        │ next window
//	                   └────────────────────────────────────────┘
//
// A run leaves the files of package history in its folder, and can be judged again from them alone:
//
//	go run ./test/chaos/cmd/chaos check DIR
package chaos
