// Package foresight computes from definitions what is to come. It does no I/O and reads no clock: whoever asks names the time.
//
//	Definitions  a set that was made ready once, and which of its jobs start first
//	Merge        the due times of many jobs in the order in which they start
//	Simulate     what starts in each minute of a range, how much runs, and whose due times find an earlier run
//	Closings     what closures of calendars do to due times
//	Shifts       what jumps of clocks do to due times
package foresight
