// Package scenarios runs the classic demonstrations of distributed locks on every backend and every kind that has them, with
// real servers, and with real processes where one is killed or stopped. Tests only.
//
// A scenario is a test, and each run of it a subtest: TestCounter/redis/exclusive. What the runs showed is the table of
// docs/locks.md: after a whole run the page is compared with it, and -update writes it there.
//
//	go test ./test/scenarios -update
package scenarios
