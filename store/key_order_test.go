package store_test

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/store"
)

// A transaction that writes many rows locks them in the order of their keys, whatever the order of the call: two that write the
// same ones wait for each other, and neither is undone as a deadlock.
func TestRowsAreWrittenInTheOrderOfTheirKeys(t *testing.T) {
	s, _, r := recordedStore(t, store.SQLite)
	ctx := t.Context()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	session, err := s.Sides().Replica.Join(ctx, ledger.Member{Replica: "r", LockService: "x"})
	check(err)
	names := []string{"c", "b", "a"}
	defs := ledger.Definitions{Pools: []ledger.PoolDef{{Name: "p", Hash: "h", MaxAttempts: 5}, {Name: "q", Hash: "h", MaxAttempts: 5, Retry: true}}}
	for _, name := range names {
		defs.Jobs = append(defs.Jobs, ledger.JobDef{Name: name, Hash: "h", Schedule: "s", Next: hourly})
	}
	_, err = s.Sides().Replica.Load(ctx, session, defs)
	check(err)
	_, err = s.Enqueue(ctx, jobs.NewTask{Pool: "q", IdempotencyKey: "b"}, jobs.NewTask{Pool: "q", Kind: "z", Priority: 1, IdempotencyKey: "a"}, jobs.NewTask{Pool: "p", Kind: "z", Priority: 2, IdempotencyKey: "c"})
	check(err)
	claim := func(pool string) []jobs.Task {
		t.Helper()
		got, err := s.Sides().Replica.Claim(ctx, ledger.Claim{
			Admission: ledger.Admission{
				Session: session, Replica: "r", Pools: map[string]ledger.Share{pool: {Hash: "h", Room: 9}},
				Admit: func(now time.Time, _ ledger.Candidate) (time.Time, bool) { return now, true },
			},
			Pool: pool,
			ID:   newID(),
			Now:  asIs,
		})
		check(err)
		return tasksOf(got.Tasks)
	}
	finish := func(tasks []jobs.Task, v ledger.Verdict, want ledger.Finish) {
		t.Helper()
		var results []ledger.Result
		for _, task := range slices.Backward(slices.SortedFunc(slices.Values(tasks), func(a, b jobs.Task) int { return cmp.Compare(a.ID, b.ID) })) {
			results = append(results, ledger.Result{TaskID: task.ID, Token: task.Token, Verdict: v, State: jobs.StateFailed, Output: []byte("out"), Task: &task})
		}
		done, err := s.Sides().Replica.Finish(ctx, session, results)
		check(err)
		for _, d := range done {
			if d.Finish != want {
				t.Fatalf("%s is %s", d.TaskID, d.Finish)
			}
		}
	}
	finish(claim("q"), ledger.HandBack, ledger.Recorded)
	finish(claim("q"), ledger.Again, ledger.Recorded)

	at := time.Now().UTC().Truncate(time.Second)
	decide := func(claim bool) []jobs.Task {
		t.Helper()
		at = at.Add(-time.Hour)
		ids := []string{newID(), newID(), newID(), newID(), newID(), newID()}
		d, err := s.Sides().Replica.Decide(ctx, ledger.Decide{
			Admission: ledger.Admission{
				Session: session, Replica: "r", Pools: map[string]ledger.Share{"p": {Hash: "h", Room: 1000}},
				Admit: func(now time.Time, _ ledger.Candidate) (time.Time, bool) { return now.Add(time.Hour), claim },
			},
			Jobs: names,
			Now:  asIs,
			Decide: func(now time.Time, _ []ledger.JobState) (all []ledger.Decision) {
				for i, name := range names { // in no order of jobs, due times or ids
					d := ledger.Decision{Job: name}
					for k, at := range []time.Time{at, at.Add(-time.Hour)} {
						d.Triggers = append(d.Triggers, ledger.Opening{
							Trigger: jobs.Trigger{Job: name, At: at, Cause: jobs.CauseSchedule},
							Task:    &jobs.Task{ID: ids[2*i+1-k], Pool: "p"},
						})
					}
					all = append(all, d)
				}
				return all
			},
		})
		check(err)
		at = at.Add(-time.Hour)
		return append(tasksOf(d.Started), d.Opened...)
	}
	decide(false)
	finish(claim("p"), ledger.Ended, ledger.Recorded)
	tasks := decide(true)
	var moves []ledger.Extension
	for _, task := range slices.Backward(tasks) {
		moves = append(moves, ledger.Extension{TaskID: task.ID, Token: task.Token, Until: at.Add(24 * time.Hour)})
	}
	_, err = s.Sides().Replica.Extend(ctx, session, moves)
	check(err)
	check(s.Sides().Replica.Leave(ctx, session))
	reaped, err := s.Sides().Replica.Reap(ctx, 9)
	check(err)
	if len(reaped) != len(tasks) {
		t.Fatalf("reaped %d of %d", len(reaped), len(tasks))
	}
	finish(tasks, ledger.Ended, ledger.Late)

	many := 0
	for _, c := range r.take() {
		keys := writtenKeys(c)
		if len(keys) > 1 {
			many++
		}
		if !slices.IsSortedFunc(keys, func(a, b []string) int { return slices.Compare(a, b) }) {
			t.Errorf("%.120s… writes %v", strings.Join(strings.Fields(c.text), " "), keys)
		}
	}
	if many < 20 {
		t.Errorf("only %d statements that write several rows were looked at", many)
	}
}

var (
	// How many of the first columns of an INSERT are the key, by table.
	keyColumns = map[string]int{"tasks": 1, "triggers": 3, "idempotency": 2, "attempts": 2, "outputs": 2, "chunks": 3, "events": 1, "jobs": 1, "standings": 2}

	inserted = regexp.MustCompile(`(?s)^(?:INSERT|REPLACE)\b.*?INTO lockstep_(\w+)\s*\(([^)]*)\)\s*VALUES`)
	named    = regexp.MustCompile(`(?s)(?:\(([a-z_, ]+)\)|\b(\w+)) IN \((VALUES |\?)`)
)

// writtenKeys are the keys that a statement writes, as they stand in it.
func writtenKeys(c call) (keys [][]string) {
	tuple := func(args []any) (key []string) {
		for _, a := range args {
			key = append(key, fmt.Sprintf("%20v", a))
		}
		return key
	}
	if m := inserted.FindStringSubmatch(c.text); m != nil {
		columns := strings.Count(m[2], ",") + 1
		for row := range slices.Chunk(c.args, columns) {
			keys = append(keys, tuple(row[:keyColumns[m[1]]]))
		}
		return keys
	}
	all := named.FindAllStringSubmatchIndex(c.text, -1)
	if strings.HasPrefix(c.text, "SELECT") || len(all) == 0 {
		return nil
	}
	last := all[len(all)-1]
	columns := 1
	if last[2] >= 0 {
		columns = strings.Count(c.text[last[2]:last[3]], ",") + 1
	}
	rest := c.text[last[0]:]
	list := rest
	if columns == 1 { // what is the same in all keys stands behind the list
		list, _, _ = strings.Cut(rest, ")")
	} else if end := strings.Index(rest, "))"); end >= 0 {
		list = rest[:end]
	}
	args := c.args[len(c.args)-strings.Count(rest, "?"):]
	return slices.Collect(func(yield func([]string) bool) {
		for row := range slices.Chunk(args[:strings.Count(list, "?")], columns) {
			if !yield(tuple(row)) {
				return
			}
		}
	})
}

// tasksOf are tasks that became running.
func tasksOf(started []ledger.Started) []jobs.Task {
	var tasks []jobs.Task
	for _, s := range started {
		tasks = append(tasks, *s.Task)
	}
	return tasks
}
