package servers

import "testing"

// Disk is a small disk of one test. Only Linux has them.
type Disk struct {
	Dir  string
	size int64
}

// NewMySQL is NewMySQL with its data on this disk and with a clock; nil of either is the machine's.
func (d *Disk) NewMySQL(t testing.TB, clock *Clock, args ...string) *MySQLServer {
	t.Helper()
	return newMySQL(t, Secure{}, clock, d, args)
}
