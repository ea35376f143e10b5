package history

// Row is a row of the product's tables as far as the judge reads it. Columns that a table does not
// have are zero. Names are those of the columns; times are database times in µs.
type Row struct {
	ID         string // tasks, done, sessions
	Job        string // jobs: its name
	Pool       string // pools: its name
	Key        string // tasks, done: task_key
	Kind       string // tasks, done
	At         int64  // triggers: at; tasks, done: trigger_at
	Seq        int64  // triggers: seq; tasks, done: trigger_seq
	Until      int64  // triggers: until_at; tasks, done: may_run_until
	Count      int64  // triggers: due_count
	Cause      string
	Outcome    string
	Reason     string
	Result     string
	TaskID     string // triggers, attempts, outputs, idempotency
	State      string // tasks: ready | waits | locked | keyed | queued | running; done, attempts: the terminal state
	Attempt    int64
	Token      int64
	Session    string // tasks, done: session_id
	Replica    string
	IdemKey    string
	Output     string // outputs
	RetryOf    string // tasks, done: the first of the chain of tasks that were retried
	RetriedAs  string // done: the task that a retry made of it
	RunAt      int64
	ExpiresAt  int64  // tasks, done
	Code       string // triggers, done: reason_code
	Cancel     string // tasks: why the owner was asked to stop it
	Paused     int64  // pools: 1 if a caller or pause_on has paused it
	By         string // pools: who has
	Window     string // pools: pause_window
	CreatedAt  int64
	DecidedAt  int64
	StartedAt  int64
	FinishedAt int64
	Late       int64  // done: a lost attempt's own result replaced "lost"
	Fence      int64  // jobs
	Cursor     int64  // jobs: cursor_at
	Schedule   string // jobs: a hash of when it is due; empty: no configuration has it
	SkipNext   int64  // jobs: skip_next
	Dead       int64  // sessions
	Beat       int64  // sessions
}

// Change is a line of audit.jsonl: what a trigger of the database saw of one statement on one row.
// Seq orders the changes of one row, and of the rows that are changed under the lock of one job's
// row; it is not the order of all commits.
type Change struct {
	Seq    int64
	At     int64  // database time, µs
	Table  string // jobs, pools, triggers, tasks, done, attempts, outputs, idempotency, sessions
	Before *Row   // nil: inserted
	After  *Row   // nil: deleted
}

// Final is final.json: the tables at the end.
type Final struct {
	Jobs     []Row
	Triggers []Row
	Tasks    []Row // not ended
	Done     []Row
	Attempts []Row
	Sessions []Row
}
