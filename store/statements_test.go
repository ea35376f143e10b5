package store_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/google/uuid"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/store"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// dsnConnector opens connections of a driver without connectors.
type dsnConnector struct {
	dsn string
	d   driver.Driver
}

func (c dsnConnector) Connect(context.Context) (driver.Conn, error) { return c.d.Open(c.dsn) }
func (c dsnConnector) Driver() driver.Driver                        { return c.d }

// recordedStore is a migrated store whose statements are recorded, and its handle.
func recordedStore(t *testing.T, d store.Dialect) (*store.Store, *sql.DB, *recorder) {
	t.Helper()
	r := &recorder{}
	if d == store.MySQL {
		c, err := mysql.ParseDSN(servers.MySQL(t))
		if err != nil {
			t.Fatal(err)
		}
		c.InterpolateParams = true
		connector, err := mysql.NewConnector(c)
		if err != nil {
			t.Fatal(err)
		}
		r.Connector = connector
	} else {
		file := filepath.Join(t.TempDir(), "test.db")
		r.inParts = true
		plain := openRaw(t, d, file)
		r.Connector = dsnConnector{"file:" + file + "?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)", plain.Driver()}
	}
	db := sql.OpenDB(r)
	t.Cleanup(func() { _ = db.Close() })
	s, err := store.New(db, d, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s, db, r
}

func newID() string { return uuid.Must(uuid.NewV7()).String() }

// day is a replica that goes through everything with batches of n, and calls step before each part.
func day(t *testing.T, s *store.Store, n int, step func(name string)) {
	t.Helper()
	ctx := t.Context()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	session, err := s.Sides().Replica.Join(ctx, ledger.Member{Replica: "r" + newID(), LockService: "x"})
	check(err)
	defs := ledger.Definitions{Pools: []ledger.PoolDef{{Name: "p", Hash: "h", MaxAttempts: 5, Retry: true}, {Name: "q", Hash: "h", MaxAttempts: 1}}}
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("job%05d", i))
		defs.Jobs = append(defs.Jobs, ledger.JobDef{Name: names[i], Hash: "h", Schedule: "s", Next: func(t time.Time) time.Time { return t.Add(time.Hour) }})
	}
	_, err = s.Sides().Replica.Load(ctx, session, defs)
	check(err)
	same := func(now time.Time) (time.Time, error) { return now, nil }
	at := time.Now().Add(time.Hour).Truncate(time.Microsecond) // later than the sweep, however slow the machine is
	decide := func(claim bool, pool string) ledger.Decided {
		at = at.Add(time.Second)
		room := 0
		if claim {
			room = 1000
		}
		d, err := s.Sides().Replica.Decide(ctx, ledger.Decide{
			Admission: ledger.Admission{
				Session: session, Replica: "r", Pools: map[string]ledger.Share{pool: {Hash: "h", Room: room}},
				Admit: func(now time.Time, _ ledger.Candidate) (time.Time, bool) { return at, true },
				Locks: lockless,
			},
			Jobs: names, Now: same, Guard: true,
			Decide: func(now time.Time, states []ledger.JobState) (all []ledger.Decision) {
				for _, j := range states {
					all = append(all, ledger.Decision{Job: j.Name, Cursor: at, NextAt: at.Add(time.Hour), Triggers: []ledger.Opening{{
						Trigger: jobs.Trigger{Job: j.Name, At: at, Cause: jobs.CauseSchedule},
						Task:    &jobs.Task{ID: newID(), Pool: pool},
					}}})
				}
				return all
			},
		})
		check(err)
		return d
	}
	claim := func(pool string) []jobs.Task {
		got, err := s.Sides().Replica.Claim(ctx, ledger.Claim{
			Admission: ledger.Admission{
				Session: session, Replica: "r", Pools: map[string]ledger.Share{pool: {Hash: "h", Room: n}},
				Admit: func(now time.Time, _ ledger.Candidate) (time.Time, bool) { return now.Add(time.Minute), true },
				Locks: lockless,
			},
			Pool:  pool,
			ID:    newID(),
			Guard: true,
			Now:   same,
			Scope: ledger.Scope{SkipJobs: []string{"x"}, Kinds: []string{""}},
		})
		check(err)
		if len(got.Tasks) != n {
			t.Fatalf("claimed %d of %d", len(got.Tasks), n)
		}
		return tasksOf(got.Tasks)
	}
	var value []byte // the result of each task
	finish := func(tasks []jobs.Task, v ledger.Verdict, state jobs.State, out string) {
		var results []ledger.Result
		for _, task := range tasks {
			results = append(results, ledger.Result{TaskID: task.ID, Token: task.Token, Verdict: v, State: state, Output: []byte(out), Value: value, Reason: task.ID, Task: &task})
		}
		done, err := s.Sides().Replica.Finish(ctx, session, results)
		check(err)
		for _, d := range done {
			if d.Finish != ledger.Recorded {
				t.Fatalf("%s is %s", d.TaskID, d.Finish)
			}
		}
	}
	var batch []jobs.NewTask
	for range n {
		batch = append(batch, jobs.NewTask{Pool: "p"})
	}
	step("enqueue")
	_, err = s.Enqueue(ctx, batch...)
	check(err)
	step("claim")
	tasks := claim("p")
	step("finish")
	finish(tasks, ledger.Ended, jobs.StateSucceeded, "")
	for i := range batch {
		batch[i].IdempotencyKey = newID()
	}
	step("enqueue with keys")
	_, err = s.Enqueue(ctx, batch...)
	check(err)
	step("")
	tasks = claim("p")
	step("finish, again with output")
	finish(tasks, ledger.Again, jobs.StateFailed, "out")
	step("ready")
	_, err = s.Sides().Replica.Ready(ctx, same)
	check(err)
	step("poll")
	_, err = s.Sides().Replica.Ready(ctx, same)
	check(err)
	step("look for what expires")
	_, _, err = s.Sides().Replica.EndExpired(ctx, same, n)
	check(err)
	step("")
	expires := time.UnixMicro(1_900_000_000_000_000)
	_, err = s.Enqueue(ctx, slices.Repeat([]jobs.NewTask{{Pool: "p", ExpiresAt: expires}}, n)...)
	check(err)
	step("end what has expired")
	expired, _, err := s.Sides().Replica.EndExpired(ctx, func(time.Time) (time.Time, error) { return expires, nil }, n)
	check(err)
	if len(expired) != n {
		t.Fatalf("ended %d", len(expired))
	}
	step("decide")
	tasks = tasksOf(decide(true, "q").Started)
	step("finish of jobs")
	finish(tasks, ledger.Ended, jobs.StateSucceeded, "")
	step("decide what waits")
	decide(false, "q")
	step("claim of jobs")
	tasks = claim("q")
	step("own")
	_, err = s.Sides().Replica.Running(ctx, session)
	check(err)
	step("extend")
	var moves []ledger.Extension
	for i, task := range tasks {
		moves = append(moves, ledger.Extension{TaskID: task.ID, Token: task.Token, Until: at.Add(time.Duration(i))})
	}
	_, err = s.Sides().Replica.Extend(ctx, session, moves)
	check(err)
	step("report progress")
	var reports []ledger.Progress
	for _, task := range tasks {
		reports = append(reports, ledger.Progress{TaskID: task.ID, Token: task.Token, Done: 0.4, Text: "text"})
	}
	_, err = s.Sides().Replica.Report(ctx, session, reports)
	check(err)
	step("write output")
	var chunks []ledger.Chunk
	for _, task := range tasks {
		chunks = append(chunks, ledger.Chunk{TaskID: task.ID, Token: task.Token, Data: []byte("text")})
	}
	_, err = s.Sides().Replica.WriteOutput(ctx, session, chunks)
	check(err)
	step("write more output")
	for i := range chunks {
		chunks[i].First, chunks[i].Forget = 100_000, 50_000
	}
	_, err = s.Sides().Replica.WriteOutput(ctx, session, chunks)
	check(err)
	step("hand back")
	finish(tasks, ledger.HandBack, "", "")
	step("")
	_, err = s.Enqueue(ctx, slices.Repeat([]jobs.NewTask{{Pool: "p"}}, n)...)
	check(err)
	tasks, value = claim("p"), []byte(`{"n": 1}`)
	step("finish with results")
	finish(tasks, ledger.Ended, jobs.StateSucceeded, "")
	value = nil
	step("")
	claim("q")
	check(s.Sides().Replica.Leave(ctx, session))
	step("reap")
	reaped, err := s.Sides().Replica.Reap(ctx, n)
	check(err)
	if len(reaped) != n {
		t.Fatalf("reaped %d", len(reaped))
	}
	step("sweep")
	time.Sleep(time.Millisecond) // what is swept is older than a microsecond
	_, err = s.Sides().Replica.Sweep(ctx, same, jobs.Retention{Triggers: time.Microsecond, Succeeded: time.Microsecond, Failed: time.Microsecond, Output: time.Microsecond}, n)
	check(err)
	step("")
}

// lockless is what a replica says of tasks without locks, where other jobs have some.
func lockless(ledger.Candidate) ledger.Locking { return ledger.Locking{} }

// hot is what the calls that set the pace send, BEGIN and COMMIT with it: one round trip each on MySQL. A decision there
// locks stripes, too. That other jobs have locks adds nothing.
var hot = map[string]map[store.Dialect]int{
	"enqueue":           {store.SQLite: 4, store.MySQL: 4},
	"claim":             {store.SQLite: 6, store.MySQL: 6},
	"decide":            {store.SQLite: 9, store.MySQL: 10},
	"decide what waits": {store.SQLite: 8, store.MySQL: 9},
	"poll":              {store.SQLite: 1, store.MySQL: 1},
	"enqueue with keys": {store.SQLite: 6, store.MySQL: 6},

	"look for what expires": {store.SQLite: 1, store.MySQL: 1},
	"report progress":       {store.SQLite: 1, store.MySQL: 1},
	"write output":          {store.SQLite: 4, store.MySQL: 4},
	"write more output":     {store.SQLite: 5, store.MySQL: 5},
}

// The number of statements does not depend on how many tasks there are, and that of the hot calls is known.
func TestStatements(t *testing.T) {
	for _, d := range []store.Dialect{store.SQLite, store.MySQL} {
		t.Run(string(d), func(t *testing.T) {
			s, db, r := recordedStore(t, d)
			count := map[string][]int{}
			var order []string
			for _, n := range []int{2, 100} {
				if _, err := db.ExecContext(t.Context(), "DELETE FROM lockstep_standings"); err != nil { // or what was lost before recovers
					t.Fatal(err)
				}
				if _, err := db.ExecContext(t.Context(), "UPDATE lockstep_jobs SET busy_until=0"); err != nil { // else lost tasks are read, too
					t.Fatal(err)
				}
				r.take()
				name := ""
				day(t, s, n, func(next string) {
					calls := 0
					for _, c := range r.take() {
						if !strings.HasPrefix(c.text, "SET TRANSACTION") { // not with Open
							calls++
						}
					}
					if name != "" {
						if count[name] == nil {
							order = append(order, name)
						}
						count[name] = append(count[name], calls)
					}
					name = next
				})
			}
			for _, name := range order {
				t.Logf("%-26s %d statements", name, count[name][1])
				if name != "sweep" && count[name][0] != count[name][1] { // a sweep skips kinds that have nothing old
					t.Errorf("%s: %d statements for 2, %d for 100", name, count[name][0], count[name][1])
				}
				if want, is := hot[name]; is && count[name][1] != want[d] {
					t.Errorf("%s: %d statements, want %d", name, count[name][1], want[d])
				}
			}
		})
	}
}

// Repeated calls send no statement where there are no rows, and one for all rows of a kind.
func TestStatementsThatAreSaved(t *testing.T) {
	for _, d := range []store.Dialect{store.SQLite, store.MySQL} {
		t.Run(string(d), func(t *testing.T) { statementsThatAreSaved(t, d) })
	}
}

func statementsThatAreSaved(t *testing.T, d store.Dialect) {
	s, db, r := recordedStore(t, d)
	ctx := t.Context()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	load := func(replica, kind string) string {
		t.Helper()
		session, err := s.Sides().Replica.Join(ctx, ledger.Member{Replica: replica, LockService: "x"})
		check(err)
		_, err = s.Sides().Replica.Load(ctx, session, ledger.Definitions{
			Jobs: []ledger.JobDef{{Name: "j", Hash: "h", Schedule: "s", Next: hourly}},
			Pools: []ledger.PoolDef{
				{Name: "any", Hash: "h", MaxAttempts: 5}, {Name: "p", Hash: kind, MaxAttempts: 5, Kinds: map[string]string{kind: "1"}},
			},
		})
		check(err)
		return session
	}
	load("one", "fax")
	check(s.Sides().Replica.Leave(ctx, load("two", "mail"))) // which governs, until one asserts what it has
	sent := func(name string, want int, do func() error) {
		t.Helper()
		r.take()
		check(do())
		got := slices.DeleteFunc(r.take(), func(c call) bool { return strings.HasPrefix(c.text, "SET TRANSACTION") }) // not with Open
		if len(got) != want {
			t.Errorf("%s: %d statements, want %d", name, len(got), want)
		}
	}
	notify := func() error {
		_, err := s.Sides().Replica.Notify(ctx, ledger.Notify{Limit: 9, Route: func(time.Time, ledger.Event) ledger.Route { return ledger.Route{Keep: true} }})
		return err
	}
	sent("events of which there are none", 1, notify)
	_, err := db.ExecContext(ctx, "INSERT INTO lockstep_events (id, event, job, pool, trigger_at, trigger_seq, until_at, due_count, task_id, attempt, replica, reason, error, happened_at) "+
		"VALUES ('e', 'failed', '', 'p', 0, 0, 0, 1, 't', 1, 'r', '', '', 1)")
	check(err)
	sent("events of pools alone", map[store.Dialect]int{store.SQLite: 2, store.MySQL: 3}[d], notify) // and the time
	tx, err := db.BeginTx(ctx, nil)
	check(err)
	sent("no tasks in a transaction", 0, func() error { _, err := s.EnqueueTx(ctx, tx); return err })
	check(tx.Rollback())
	sent("upcoming in no stripe", 0, func() error { _, err := s.Sides().Replica.Upcoming(ctx, nil); return err })
	sent("standings of jobs that had no due time", 1, func() error { _, err := s.Sides().API.JobStandings(ctx); return err })
	pools := func() error { _, err := s.Sides().API.Pools(ctx); return err }
	sent("pools without tasks", 3, pools)
	_, err = s.Enqueue(ctx, jobs.NewTask{Pool: "any"})
	check(err)
	sent("pools with tasks, each of which runs any kind", 3, pools)
	for _, n := range []int{1, 2, 100} {
		sent(fmt.Sprint(n, " tasks of a kind that only a live replica has"), 5, func() error {
			_, err := s.Enqueue(ctx, slices.Repeat([]jobs.NewTask{{Pool: "p", Kind: "fax"}}, n)...)
			return err
		})
	}
	sent("pools with tasks, of which one runs any kind", 4, pools)
}

// Statements that lock or write rows look them up by the primary key, one by one, even in tables as
// small as these: a scan would wait for the rows of others, and they for its own.
func TestPlans(t *testing.T) {
	servers.MySQL(t)
	s, db, r := recordedStore(t, store.MySQL)
	explained, seen := 0, map[string]bool{}
	part := ""
	look := func(next string) {
		for _, c := range r.take() {
			for _, table := range []string{"lockstep_tasks", "lockstep_triggers", "lockstep_jobs", "lockstep_pools", "lockstep_standings", "lockstep_stripes"} {
				listed := strings.Contains(c.text, ") v STRAIGHT_JOIN "+table+" ") // where the rows' values differ
				locks := strings.Contains(c.text, " FOR UPDATE") && strings.Contains(c.text, "FROM "+table) || listed ||
					strings.HasPrefix(c.text, "UPDATE "+table) || strings.HasPrefix(c.text, "DELETE t FROM "+table)
				if !locks || part == "" || part == "sweep" {
					continue
				}
				explained++
				paths := plan(t, db, c)
				if listed { // which is read first, and as a whole
					if seen[table] = true; len(paths) < 2 || paths[0] != (accessPath{"ALL", ""}) || paths[1] != (accessPath{"eq_ref", "PRIMARY"}) {
						t.Errorf("%s: %v for %.400s …", part, paths, c.text)
					}
					continue
				}
				for _, p := range paths {
					gone := p == accessPath{} // a single row was looked up by its key, and is not there any more
					if !gone && (p.key != "PRIMARY" || p.kind != "range" && p.kind != "const") {
						t.Errorf("%s: %s %s for %.120s …", part, p.kind, p.key, c.text)
					}
				}
			}
		}
		part = next
		r.take()
	}
	for _, n := range []int{1, 20} { // MariaDB looks a single tuple up in another way
		for _, text := range []string{"DELETE FROM lockstep_standings", "UPDATE lockstep_jobs SET busy_until=0"} {
			if _, err := db.ExecContext(t.Context(), text); err != nil {
				t.Fatal(err)
			}
		}
		day(t, s, n, look)
	}
	if !seen["lockstep_tasks"] || !seen["lockstep_triggers"] {
		t.Errorf("rows with values of their own were seen in %v", seen)
	}
	if explained < 30 {
		t.Errorf("%d statements that lock were seen", explained)
	}
}

type accessPath struct{ kind, key string }

func plan(t *testing.T, db *sql.DB, c call) (paths []accessPath) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), store.Explain(t, db)+c.text, c.args...)
	if err != nil {
		t.Fatalf("%s: %v", c.text, err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		values := make(map[string]*sql.NullString, len(columns))
		dest := make([]any, len(columns))
		for i, name := range columns {
			v := &sql.NullString{}
			values[strings.ToLower(name)], dest[i] = v, v
		}
		if err := rows.Scan(dest...); err != nil {
			t.Fatal(err)
		}
		if kind := values["select_type"].String; kind != "INSERT" { // MySQL names the target too
			paths = append(paths, accessPath{values["type"].String, values["key"].String})
		}
	}
	return paths
}
