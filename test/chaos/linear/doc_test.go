// Package linear tests that each lock service excludes while the network fails, and when its servers end: the
// clients of locks/lockstest run behind proxies, one for each server, while faults begin and end.
//
// SQLite and the lock in memory have no network. Their histories are judged where they are tested, by
// lockstest.Run.
package linear
