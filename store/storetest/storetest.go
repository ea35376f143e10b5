// Package storetest is what every store must do. Each case gets a database of its own.
//
// Most cases are the contract: they call the methods of the store, and check the rows
// directly. The others are about SQL, and about methods for users alone.
package storetest

import (
	"context"
	"database/sql"
	"slices"
	"testing"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/store"
)

// Store is what the contract is about: the methods for replicas, and those for users.
type Store interface {
	ledger.Store

	Cancel(ctx context.Context, id, by string) (jobs.Task, error)
	ChangeTasks(ctx context.Context, action wire.BulkAction, b wire.Bulk) (wire.BulkResult, error)
	UpdateTask(ctx context.Context, id string, change wire.TaskChange) (jobs.Task, error)
	Enqueue(ctx context.Context, tasks ...jobs.NewTask) ([]jobs.Enqueued, error)
	AddPools(ctx context.Context, pools map[string]jobs.Pool) error
	Jobs(ctx context.Context, names ...string) ([]ledger.JobStatus, error)
	Task(ctx context.Context, id string) (jobs.Task, []jobs.Attempt, error)
	Result(ctx context.Context, id string) ([]byte, error)
	Output(ctx context.Context, id string, attempt int) ([]byte, error)
	FollowOutput(ctx context.Context, id string, from ledger.OutputAt) (ledger.OutputNews, error)
	SuspendJob(ctx context.Context, name string, by string, override *bool) error
	SuspendJobs(ctx context.Context, names []string, by string, s ledger.Suspension) (set []string, err error)
	SkipNext(ctx context.Context, name string, by string, n int) error
	PausePool(ctx context.Context, name string, by string, override *bool) error
	PauseAll(ctx context.Context, p ledger.Pause) (ledger.Pause, error)
	ResumeAll(ctx context.Context) (was bool, err error)
	LimitPool(ctx context.Context, name string, by string, o *wire.PoolLimits) error
	Orders(ctx context.Context, f wire.OrderFilter) (rows []wire.Order, next string, err error)
	Order(ctx context.Context, id string) (wire.Order, error)
	CancelOrder(ctx context.Context, id, by string) (wire.Order, error)
}

// sqlStore is one of package store.
type sqlStore struct {
	ledger.Store
	ledger.API
	users *store.Store
}

// Of is a store of package store, with what it has for users and for replicas.
func Of(st *store.Store) Store {
	sides := st.Sides()
	return sqlStore{sides.Replica, sides.API, st}
}

// Pools is what people see.
func (s sqlStore) Pools(ctx context.Context) ([]ledger.PoolStatus, error) { return s.API.Pools(ctx) }

func (s sqlStore) AddPools(ctx context.Context, pools map[string]jobs.Pool) error {
	return s.users.AddPools(ctx, pools)
}

// sqlOf is the inverse of Of, for a store that is one.
func sqlOf(st Store) (*store.Store, bool) {
	s, is := st.(sqlStore)
	return s.users, is
}

// Bench is an empty, migrated database.
type Bench struct {
	Dialect store.Dialect // a store that allows no other write between its reads and its writes is SQLite's kind
	Store   Store
	// Open makes another store on the same database, as another process would. It is closed with
	// the test.
	Open func(t *testing.T) Store
	DB   DB
}

// SQL is the store of a case that is not of the contract.
func (b *Bench) SQL() *store.Store { return b.Store.(sqlStore).users }

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

// Contract is what every store must do, also one without SQL; each file of this package has a list.
var Contract = slices.Concat(
	sessionCases,
	definitionCases,
	historyCases,
	enqueueCases,
	kindCases,
	rowCases,
	triggerCases,
	slotCases,
	suspendAfterCases,
	claimCases,
	rateCases,
	keyCases,
	keysMovedCases,
	kindLimitCases,
	keyRateCases,
	keyBesideCases,
	orderCases,
	uniqueCases,
	uniqueTogetherCases[:3],
	keysTogetherCases[:2],
	fairCases,
	expiryCases,
	ownRetriesCases,
	lostLimitCases,
	progressCases,
	resultCases,
	outputCases,
	overrideCases,
	overrideKeyCases,
	suspendCases,
	pauseCases,
	poolCases,
	waitCases,
	endCases,
	neighbourCases,
	standingCases,
	notifyCases,
	askedCases,
	expectationCases,
	orderedCases,
	reapCases,
	workerCases,
	cancelCases,
	bulkCases,
	pauseOnCases,
	updateCases,
	sweepCases,
	clockCases,
)

// Cases are all of them.
var Cases = slices.Concat(
	Contract,
	schemaCases,
	enqueueTxCases,
	keysTogetherCases[2:],
	uniqueTogetherCases[3:],
	sweepBesideCases,
	viewCases,
	historyViewCases,
	deadLetterCases,
	whyCases,
	whyJobCases,
	jobStandingCases,
	auditCases,
	[]Case{
		{"Enqueue/Listened", listened},
		{"Bulk/Looks", bulkLooks},
		{"Waits/WrongKeyStays", waitsWrongKeyStays},
		{"Workers/WithTasks", workersWithTasks},
		{"Sessions/Fails", sessionsFail},
		{"Definitions/HundredThousand", hundredThousand},
		{"Triggers/ForcedTexts", forcedTexts},
		{"Triggers/AskedAgain", askedAgain},
		{"Standings/NoEvent", noEvent},
		{"Reap/Refused", reapRefused},
		{"Notify/Fails", notifyFails},
		{"Notify/Enqueue", enqueueNotification},
	},
)

// Run runs all cases; open makes the database of one.
func Run(t *testing.T, open func(t *testing.T) *Bench) { runCases(t, Cases, open) }

// RunContract runs the contract.
func RunContract(t *testing.T, open func(t *testing.T) *Bench) { runCases(t, Contract, open) }

func runCases(t *testing.T, cases []Case, open func(t *testing.T) *Bench) {
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) { c.Test(t, open(t)) })
	}
}
