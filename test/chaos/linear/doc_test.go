// Package linear holds that each lock service excludes when the network breaks: the clients of
// locks/lockstest, each behind an edge of its own, and faults that come and go while they work.
package linear
