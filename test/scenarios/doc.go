// Package scenarios runs the classic demonstrations of distributed locks on every backend and every kind that has them, with
// real servers, and with real processes where one is killed or stopped. Tests only.
//
// What is asked of a backend follows from its Caps: kinds that it lacks are not run, and without order none is demanded, which
// the log says. Exclusive keys are run in the sizes that the comments of the tests name, also where each turn waits for a disk;
// the other kinds with fewer clients there (backends). TestBankAccount, TestTaskPool and TestOrderNumbers need one holder at a
// time: they run the exclusive kind, reentrant holds and several keys.
//
// A scenario is a test, and each run of it a subtest: TestCounter/redis/exclusive. What the runs showed is the table of
// docs/locks.md: after a whole run the page is compared with it, and -update writes it there.
//
//	go test ./test/scenarios -update
package scenarios
