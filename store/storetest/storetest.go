// Package storetest is what every dialect of the store must do. Each case gets a database of its
// own.
package storetest

import (
	"database/sql"
	"slices"
	"testing"

	"github.com/lockstep-scheduler/lockstep/store"
)

// Bench is an empty, migrated database.
type Bench struct {
	Dialect store.Dialect
	Store   *store.Store
	// Open makes another store on the same database, as another process would. It is closed with
	// the test.
	Open func(t *testing.T) *store.Store
	DB   DB
}

// DB reads and writes the rows behind the store's back; statements are in the store's own words,
// such as {tasks}, with ? for arguments.
type DB interface {
	Handle() *sql.DB
	Exec(t *testing.T, text string, args ...any) (rows int64)
	// Int returns the first column of the first row, which must be there.
	Int(t *testing.T, text string, args ...any) int64
	// Text is the same for text; "" if there is no row.
	Text(t *testing.T, text string, args ...any) string
}

// Case is one thing that must hold.
type Case struct {
	Name string
	Test func(t *testing.T, b *Bench)
}

// Cases are all of them; each file of this package has a list.
var Cases = slices.Concat(
	schemaCases,
	sessionCases,
	definitionCases,
	enqueueCases,
	enqueueTxCases,
	viewCases,
	jobStandingCases,
	triggerCases,
	claimCases,
	endCases,
	standingCases,
	notifyCases,
	reapCases,
	cancelCases,
	sweepCases,
	auditCases,
)

// Run runs all cases; open makes the database of one.
func Run(t *testing.T, open func(t *testing.T) *Bench) {
	for _, c := range Cases {
		t.Run(c.Name, func(t *testing.T) { c.Test(t, open(t)) })
	}
}
