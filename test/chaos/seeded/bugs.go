package seeded

import (
	"embed"
	"fmt"
	"slices"
	"strings"
)

//go:embed bugs/*.diff
var bugs embed.FS

// Bug is a plausible mistake in the product.
type Bug struct {
	Name    string // of its diff
	Mistake string // what its author thought
	Breaks  string // why no other guard covers it, and what it looks like from outside

	Cell     string   // where it shows: store and lock service
	Nemeses  []string // what makes it show, window after window; "a/b": both at once
	Caught   []string // invariants of the judge that it breaks, any of them
	Directly string   // a test of the product that fails with it, as arguments of go test; "": none
}

// All are the bugs, in the order of the promises that they break.
func All() []Bug {
	return []Bug{
		{
			Name:    "no-unique-key",
			Mistake: "The key of the ledger has the task's id in it, and the job's row is read without a lock: the holder of the stripe's lock is alone anyway.",
			Breaks: "A lock does not stop replicas that decide overdue triggers. While the owner of a stripe waits for a slow database, another replica reads the same cursor and " +
				"opens the same due time: two ledger rows, two tasks, two starts under one idempotency key.",
			Cell: "mariadb+redis", Nemeses: []string{"far-store", "slow-store"}, Caught: []string{"I1", "I2", "I4"},
			Directly: "-run TestMySQL/Triggers ./store",
		},
		{
			Name:    "token-from-redis",
			Mistake: "The fencing token of a pool's task is that of the pool's lock, and Redis counts it: what else would a lock's token be for?",
			Breaks: "Redis that lost its data counts from what live sessions bring back, which is long ago. A task that is tried again then gets a smaller token than its first attempt " +
				"had, and a target that compares tokens refuses the new owner and accepts the old one.",
			Cell: "mariadb+redis", Nemeses: []string{"redis-flushall", "redis-restarted-empty"}, Caught: []string{"I4", "I7", "I14"},
			Directly: "-run TestConformance/alone/restart ./locks/redislock",
		},
		{
			Name:    "token-missing-in-completion",
			Mistake: "A result is written by the id of the task, without its token.",
			Breaks: "A replica that was frozen wakes, gives up what it had, and ends the attempt that another replica has started since: a third one starts while the second runs, " +
				"or the record says succeeded before the attempt of that token has ended.",
			Cell: "mariadb+redis", Nemeses: []string{"sigstop-parent"}, Caught: []string{"I2", "I3", "I5", "I7"},
			Directly: "-run TestMySQL/Ends ./store",
		},
		{
			Name:    "limit-outside-the-transaction",
			Mistake: "A replica that claims has the lock of the pool, so its row is read and not locked: no other replica asks meanwhile.",
			Breaks: "The lock only keeps claims apart while the database is fast; a trigger is decided without it, and a replica that has waited for it for 250 ms claims without it. Two transactions count " +
				"the same running tasks, or read the same bucket, and both start what is left.",
			Cell: "mariadb+redis", Nemeses: []string{"far-store", "slow-store"}, Caught: []string{"I3"},
			Directly: "-run TestMySQL/Claims/MaxRunning ./store",
		},
		{
			Name:    "unique-by-read-then-write",
			Mistake: "Who enqueues a unique task looks whether one with its values is there, and if not writes its row together with the task: the primary key of that has no second row.",
			Breaks: "Two that look at the same time find nothing, or one that has ended, and both add a task. The second row is not refused: it is an upsert, as that of the next one is. " +
				"Two tasks with the same values are open at once, and each was acknowledged as the only one.",
			Cell: "mariadb+redis", Nemeses: []string{"far-store"}, Caught: []string{"I6"},
			Directly: "-run TestMySQL/Unique ./store",
		},
		{
			Name:    "exec-before-commit",
			Mistake: "Work begins while COMMIT is on its way, so that no due time waits for the disk.",
			Breaks:  "A transaction whose COMMIT never arrives is rolled back, with the work under way: the due time is decided again, and started again by another replica.",
			Cell:    "mariadb+redis", Nemeses: []string{"lose-commits"}, Caught: []string{"I2"},
		},
		{
			Name:    "blind-retry",
			Mistake: "A COMMIT without an answer is an error like any other, and after an error the transaction is repeated. Rows of the own session are known here, so it is not necessary to look for others.",
			Breaks:  "What the first transaction took stays running for as long as its replica lives: it is not executed and not reaped, and with forbid the job never runs again.",
			Cell:    "mariadb+redis", Nemeses: []string{"lose-commits"}, Caught: []string{"I1", "I6", "I9"},
			Directly: "-run TestLost ./store",
		},
		{
			Name:    "unchecked-heartbeat",
			Mistake: "The heartbeat ignores the rows affected: its session counts as live, and the other transactions do not check again.",
			Breaks: "A replica whose session expired while it was frozen goes on. All that it claims from then on is under an expired session, given up as lost or started " +
				"again elsewhere while it runs.",
			Cell: "mariadb+redis", Nemeses: []string{"sigstop-parent"}, Caught: []string{"I3b", "I5", "I10"},
			Directly: "-run TestSQLite/Sessions ./store",
		},
		{
			Name:    "release-without-owner",
			Mistake: "Releasing deletes the key.",
			Breaks: "A release whose reply was lost is sent again, when another session has been granted the key: it is freed under the new holder, and a third one gets it. Two hold one key " +
				"until the next renewal.",
			Cell: "mariadb+redis", Nemeses: []string{"mute-lock"}, Caught: []string{"I5", "I14"},
			Directly: "-run TestConformance/together/release ./locks/redislock",
		},
		{
			Name:    "lease-anchored-at-reply",
			Mistake: "A lease is good for a ttl from the moment its renewal succeeded.",
			Breaks: "It succeeded at the server before its reply arrived. If the reply was slow and nothing comes through afterwards, the holder believes in its lease for longer than the " +
				"server does, and the next one has it already.",
			// Each shows it about every second time: another replica has to ask in the half second that is too
			// long.
			Cell: "mariadb+redis", Nemeses: slices.Repeat([]string{"slow-then-cut-lock"}, 4), Caught: []string{"I14"},
			Directly: "-run TestSlow ./locks",
		},
		{
			Name:    "reaper-on-local-clock",
			Mistake: "A session has expired when the time of its last heartbeat is older than the ttl: now minus then.",
			Breaks:  "One replica's clock is set an hour ahead, and at once it expires all the others, which live and work: their attempts are lost, or started again beside them.",
			Cell:    "mariadb+redis", Nemeses: []string{"replica-clock+1h"}, Caught: []string{"I10"},
		},
		{
			Name:    "cursor-in-another-transaction",
			Mistake: "First the cursor is moved and committed, so that no other replica decides these due times; then their rows are written.",
			Breaks:  "Whatever happens in between, the cursor says that these due times are decided, and there is no row. They are gone without a word.",
			Cell:    "mariadb+redis", Nemeses: []string{"lose-commits"}, Caught: []string{"I1"},
			Directly: "-run TestMySQL/Triggers ./store",
		},
		{
			Name:    "no-kill-on-lost-session",
			Mistake: "Work that runs is left in peace while the store cannot be reached: it may well be back in time.",
			Breaks:  "The others have expired the session and started its work again, as on_lost: retry says. Both run, for as long as the first one takes.",
			Cell:    "mariadb+redis", Nemeses: []string{"cut-store", "reset-store", "cut-store"}, Caught: []string{"I3b"},
			Directly: "-run TestAnOutageOfTheStoreStopsWhatOthersMayStart ./scheduler",
		},
		{
			Name:    "hand-over-to-the-dead",
			Mistake: "A place in the queue is looked at when its turn comes, and then it gets the key: if its session has ended, that is reaped like any other.",
			Breaks:  "The session was reaped before its turn came, and is known to nobody any more: what it is granted afterwards nothing frees. All that wait behind it wait for ever.",
			Cell:    "mariadb+redis", Nemeses: []string{"kill-parent", "kill-parent"}, Caught: []string{"I15"},
			Directly: "-run TestConformance/together/(queue|order) ./locks/redislock",
		},
		{
			Name:    "cancelled-keeps-its-place",
			Mistake: "An acquisition that was abandoned is marked, and refused from then on: that is all it takes.",
			Breaks:  "Its place stays in the queue, and is granted when its turn comes, to a session that lives and no longer wants it. The key has a holder that never releases it.",
			Cell:    "mariadb+redis", Nemeses: []string{"kill-parent", "kill-parent"}, Caught: []string{"I15"},
			Directly: "-run TestConformance/together/(queue|order) ./locks/redislock",
		},
		{
			Name:    "reader-overtakes-writer",
			Mistake: "A reader that may hold the key together with those that hold it need not wait.",
			Breaks:  "While readers come, one always holds the key, and a writer that waits is never served.",
			Cell:    "mariadb+redis", Nemeses: []string{"kill-parent"}, Caught: []string{"I15"},
			Directly: "-run TestConformance/together/shared ./locks/redislock",
		},
		{
			Name:    "first-needs-no-lock",
			Mistake: "All that want the key ask the store, and each has its place there: what is first has its turn.",
			Breaks:  "The one before it left the queue when it started, and still runs. So do both now, and what holds the key without the store, a command or a program, is not asked at all.",
			Cell:    "mariadb+redis", Nemeses: []string{"kill-parent"}, Caught: []string{"I3b"},
			Directly: "-run TestExclusiveLocksOfTasks ./scheduler",
		},
		{
			Name:    "disconnected-is-held",
			Mistake: "Disconnected is nothing: the library connects again by itself, and that a session is over is said by Expired.",
			Breaks: "Expired is said by a server, and there is none in reach. Cut off from the ensemble, the replica holds its locks for ever, while the ensemble has ended the session " +
				"and granted them to others.",
			Cell: "mariadb+zookeeper", Nemeses: []string{"reset-lock", "reset-lock"}, Caught: []string{"I14"},
			Directly: "-run TestExpiryWhileCutOff ./locks/zklock",
		},
		{
			Name:    "worker-completes-without-token",
			Mistake: "The session of a worker is secret and says whose the task is, and the row has its token: what the worker sends is looked up by the session and the task.",
			Breaks: "A worker that was given the task again, after a retry or since it had handed it back, has two attempts of it in one session. What the first of them says, late, ends the second one, " +
				"which still runs.",
			Cell: "mariadb+redis", Nemeses: []string{"worker-frozen"}, Caught: []string{"I5", "I7"},
			Directly: "-run TestAStaleTokenOfAWorker ./api",
		},
		{
			Name:    "told-to-stop-is-free",
			Mistake: "With replace the older run is told to stop, and the new one starts: the slot is its own from then on.",
			Breaks:  "A run that was told to stop takes its time, up to its grace period. Until then two runs of the job have its one slot, and both work.",
			Cell:    "mariadb+redis", Nemeses: []string{"kill-parent"}, Caught: []string{"I3", "I3b"},
			Directly: "-run TestSlots ./scheduler/internal/triggers",
		},
		{
			Name:    "number-by-load",
			Mistake: "Who loads a configuration wants it to hold: each load takes the next number.",
			Breaks:  "A replica that starts again with last week's file becomes the newest, and the others are rolled back: their schedules are those of last week, and a job that came since is removed.",
			Cell:    "mariadb+redis", Nemeses: []string{"reload", "reload"}, Caught: []string{"I1"},
			Directly: "-run TestSQLite ./store",
		},
		{
			Name:    "edit-keeps-cursor",
			Mistake: "Up to where a job's due times are decided does not change with its schedule.",
			Breaks:  "What the new schedule has between the last due time of the old one and the edit was never decided, and is late: it fires at once.",
			Cell:    "mariadb+redis", Nemeses: []string{"reload", "reload"}, Caught: []string{"I1"},
			Directly: "-run TestSQLite ./store",
		},
	}
}

// Find returns the bug of that name; the error lists those there are.
func Find(name string) (Bug, error) {
	var names []string
	for _, b := range All() {
		if b.Name == name {
			return b, nil
		}
		names = append(names, b.Name)
	}
	return Bug{}, fmt.Errorf("no seeded bug %q; there are %s", name, strings.Join(names, ", "))
}
