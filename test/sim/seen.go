package sim

import (
	"sync"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// seen is the history of a simulation. mu guards all of it, and the fields of replicas that say so.
type seen struct {
	mu sync.Mutex

	// The rows, as they were committed, and the clock by which they were.
	token       map[string]int64                    // the last one, by job
	claims      map[claimKey]claim                  // all
	slotted     map[string]map[string]memstore.Task // tasks that have a slot, by job
	queued      map[string]map[string]memstore.Task // tasks that wait for one
	inPool      map[string]int                      // running rows
	ready       map[string]map[string]readyTask     // tasks that are, by pool
	owned       map[string]int64                    // tokens of running rows, by task
	leaving     map[string]memstore.Task            // rows between tasks and done
	done        map[string]string                   // states
	epochs      map[string][]epoch                  // by job
	redefined   map[string]int64                    // by job, when its latest definition ended
	governs     map[string]string                   // hashes of definitions, as the rows have them
	retiredAt   map[string]moment                   // jobs that have none any more
	pending     map[string]pending                  // tasks
	unwanted    map[string]bool                     // tasks and orders that users have cancelled, or tried to
	everRetired map[string]bool                     // jobs that had no definition once
	orders      map[string]*order
	scheduled   map[string]string                 // hashes of schedules, by job
	cursors     map[string]int64                  // of jobs
	covering    map[dueKey][]memstore.TriggerKey  // rows that begin with a due time
	ran         map[dueKey]bool                   // due times of which a row has said that they have run, or are about to
	unknownPool map[string]bool                   // pools that no configuration has
	busy        map[string]map[string]int64       // by job and task: until when attempts may run whose replicas are gone, without a result
	failures    map[string]int                    // runs of a job that failed in a row
	suspended   map[string]int                    // how often a job was, after failures
	toldOf      map[string]int                    // events of that
	held        map[string]*held                  // what users have said of jobs
	pause       pausing                           // of everything
	paused      map[string]bool                   // pools, by override
	failing     map[string]*failing               // pools with pause_on
	rated       map[string]*rated                 // by pool
	byKey       map[string]*poolKeys              // by pool
	byKind      map[string]*kindLimits            // by pool
	ofKind      map[string]int                    // tasks of the limited kind that run, by pool
	withKey     map[keyOf][]string                // tasks that have not ended, as they were enqueued
	inKey       map[keyOf][]string                // tasks that run
	sharing     map[string]*sharing               // by pool
	expiring    map[string]expiring               // by task
	sessions    map[string]*replica               // by session
	numbers     map[string]int64                  // of configurations, by hash: that which each has now
	loaded      map[string]int64                  // numbers of live sessions
	activations int                               // that users have asked for
	beats       map[string]time.Time              // the last ones that the store took, by session
	expired     map[string]bool                   // sessions that other replicas expired
	committed   map[memstore.TriggerKey]time.Time // when rows of the ledger were
	waits       map[waitKey]memstore.LockWait
	abandoned   map[string]time.Time // tasks that sessions had queued for their locks, by when those were declared dead, or the task became first since
	late        lateness
	telling     telling
	retried     map[string]bool // ended tasks, by users
	offset      time.Duration   // of the database's clock
	high        time.Time       // the highest time that it showed before its last step

	// The attempts, by the independent ledger.
	runs   map[claimKey]*run // all
	active map[string][]*run // that execute, by job
	starts map[string]int    // by task
	fence  map[string]int64  // the highest token that the fenced lane has seen, by job

	// The callers of the store, and what it acknowledged.
	replicas map[string]*replica   // by id, the latest
	latestOn map[int]string        // ids of replicas, by node
	left     time.Time             // when the last one ended
	walls    map[int]time.Duration // how far wall clocks are off, by node
	acked    map[string]bool       // tasks
	keys     map[string]string     // ids by idempotency key, as they were acknowledged

	// The judgement.
	healed     time.Time       // the highest time that the database's clock showed before all was healed
	retired    map[string]bool // jobs, when all had come to rest
	removed    map[string]bool // pools, then
	over       bool
	counted    map[string]int // what was seen
	history    []entry
	violations []violation
}

func newSeen() *seen {
	return &seen{
		token: map[string]int64{}, claims: map[claimKey]claim{}, slotted: map[string]map[string]memstore.Task{}, queued: map[string]map[string]memstore.Task{}, inPool: map[string]int{},
		ready: map[string]map[string]readyTask{}, owned: map[string]int64{}, leaving: map[string]memstore.Task{}, done: map[string]string{}, epochs: map[string][]epoch{}, redefined: map[string]int64{}, governs: map[string]string{}, retiredAt: map[string]moment{}, pending: map[string]pending{}, unwanted: map[string]bool{},
		everRetired: map[string]bool{}, orders: map[string]*order{}, scheduled: map[string]string{}, cursors: map[string]int64{}, covering: map[dueKey][]memstore.TriggerKey{}, ran: map[dueKey]bool{},
		unknownPool: map[string]bool{},
		busy:        map[string]map[string]int64{}, held: map[string]*held{}, failures: map[string]int{}, suspended: map[string]int{}, toldOf: map[string]int{}, paused: map[string]bool{}, rated: map[string]*rated{},
		byKind: map[string]*kindLimits{}, ofKind: map[string]int{}, byKey: map[string]*poolKeys{}, withKey: map[keyOf][]string{}, inKey: map[keyOf][]string{}, sharing: map[string]*sharing{}, expiring: map[string]expiring{},
		sessions: map[string]*replica{}, numbers: map[string]int64{}, loaded: map[string]int64{}, beats: map[string]time.Time{}, expired: map[string]bool{}, committed: map[memstore.TriggerKey]time.Time{},
		waits: map[waitKey]memstore.LockWait{}, abandoned: map[string]time.Time{}, late: newLateness(), telling: newTelling(), retried: map[string]bool{},

		runs: map[claimKey]*run{}, active: map[string][]*run{}, starts: map[string]int{}, fence: map[string]int64{},

		replicas: map[string]*replica{}, latestOn: map[int]string{}, walls: map[int]time.Duration{},
		acked: map[string]bool{}, keys: map[string]string{},

		counted: map[string]int{},
	}
}

type claimKey struct {
	task  string
	token int64
}

type claim struct {
	by, session string
	mayRun      int64
	defined     string // the hash of the definition that governed
}

// epoch is an interval in which a job had one schedule.
type epoch struct {
	times       times
	closed      *closed // by its calendar
	from, until int64   // its first cursor, and up to where its due times have rows when it ends; until 0: it lasts
}
