// Package linear holds that each lock service excludes when the network breaks, and when its servers
// die: the clients of locks/lockstest, each behind edges of its own, one for each server that it
// speaks to, and faults that come and go while they work.
//
// SQLite and the lock in memory have no network that could break. Their histories are judged where
// they are tested, by lockstest.Run.
package linear
