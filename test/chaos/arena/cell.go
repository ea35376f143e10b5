//go:build linux

package arena

import (
	"fmt"
	"strings"
)

// What a cell is made of.
const (
	MariaDB   = "mariadb"
	SQLite    = "sqlite"
	Redis     = "redis"
	ZooKeeper = "zookeeper" // three of them
	Quorum    = "quorum"    // five Redis servers
	Lease     = "lease"     // a MariaDB of its own, a row is held
	Row       = "row"       // a MariaDB of its own, a transaction holds a row
)

// Cell is a kind of store with a kind of lock service.
type Cell struct{ Store, Lock string }

// Cells are those that runs go through.
var Cells = []Cell{
	{MariaDB, Redis},
	{MariaDB, ZooKeeper},
	{MariaDB, Quorum},
	{MariaDB, Lease},
	{MariaDB, Row},
	{MariaDB, MariaDB},
	{SQLite, SQLite},
	{SQLite, Redis},
}

// ParseCell is the cell of a name as String gives it.
func ParseCell(name string) (Cell, error) {
	var names []string
	for _, c := range Cells {
		if c.String() == name {
			return c, nil
		}
		names = append(names, c.String())
	}
	return Cell{}, fmt.Errorf("no cell %q; there are %s", name, strings.Join(names, ", "))
}

func (c Cell) String() string { return c.Store + "+" + c.Lock }
