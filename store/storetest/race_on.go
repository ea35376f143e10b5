//go:build race

package storetest

// scale is how much smaller big cases are: the race detector makes SQLite, which is compiled into
// the test, some 20 times slower.
const scale = 20
