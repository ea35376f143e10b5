package api

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// backend is a store, a replica and a lock service in memory. It records every change, so that a test can check that
// there was none.
type backend struct {
	ledger.API
	mu       sync.Mutex
	pause    ledger.Pause
	set      jobs.Set
	jobs     []ledger.JobStatus
	pools    []ledger.PoolStatus
	tasks    []jobs.Task
	dead     []wire.DeadLetters
	next     []ledger.NextDue
	triggers []jobs.Trigger
	history  []wire.Definition
	peers    []ledger.Peer
	locks    []driver.Info
	keys     map[string]jobs.Task
	output   map[string][]byte
	health   []wire.Condition
	starting bool // the definitions are not loaded
	orders   int  // further ones that are open, of job report

	err     error    // of every method
	lockErr error    // of the lock service
	panics  bool     // Jobs does
	changes []string // what was written, and who asked
	audit   []wire.AuditEntry
	workers []ledger.WorkerStatus
	filters []any // what Triggers and Tasks were asked for
	looks   int   // at the overview

	namespace *string // nil: the replica does not know it
}

func (b *backend) Namespace() (string, bool) {
	if b.namespace == nil {
		return "", false
	}
	return *b.namespace, true
}

func newBackend() *backend {
	start := time.Date(2026, 3, 1, 8, 0, 0, 123000, time.UTC)
	code := 3
	return &backend{
		set: jobs.Set{
			Jobs: map[string]jobs.Job{
				"backup": {
					Priority: 5, Jitter: 30 * time.Second,
					Schedule: "30 2 * * *", Timezone: "Europe/London", Labels: map[string]string{"team": "infra"},
					Params:   json.RawMessage(`{"type": "object", "properties": {"to": {"items": {"type": "string"}}}}`),
					StartsAt: time.Date(2026, 1, 1, 1, 0, 0, 0, time.FixedZone("", 3600)), EndsAt: time.Date(2999, 1, 1, 0, 0, 0, 0, time.UTC),
				},
				"report": {Suspend: true, Spread: 10 * time.Minute},
			},
			Pools: map[string]jobs.Pool{"mail": {Workers: 8, Kinds: map[string]jobs.Handler{"welcome": nil, "bye": nil}}},
		},
		jobs: []ledger.JobStatus{
			{Job: wire.Job{Name: "backup", NextAt: start, NextStartAt: start.Add(7 * time.Second), Open: 1, Last: &jobs.Trigger{Job: "backup", At: start, Count: 1, Cause: jobs.CauseSchedule}}, Hash: "h"},
			{Job: wire.Job{Name: "gone", Retired: true}},
			{Job: wire.Job{Name: "report"}, Hash: "h"},
		},
		pools: []ledger.PoolStatus{{Name: "default", Hash: "h"}, {Name: "mail", Hash: "h", Limits: ledger.Limits{MaxRunning: 20}, Pending: 2}, {Name: "old"}},
		tasks: []jobs.Task{
			{ID: "task-1", Pool: "mail", Kind: "welcome", State: jobs.StatePending, MaxAttempts: 11, RunAt: start, CreatedAt: start, Payload: []byte(`{"n":1e400,"s":"<"}`), Tags: []string{"a"}},
			{ID: "task-2", Pool: "default", Job: "backup", ScheduledAt: start, State: jobs.StateFailed, Reason: "exit 3", Attempt: 2, MaxAttempts: 2, Lost: 1, Token: 7, Replica: "r1", RunAt: start, CreatedAt: start, StartedAt: start, FinishedAt: start, ExitCode: &code, Error: "exit status 3", Payload: []byte("not json"), OnLost: jobs.LostFails, IdempotencyKey: "k"},
		},
		triggers: []jobs.Trigger{{Job: "backup", At: start, Count: 1, Cause: jobs.CauseSchedule, Outcome: jobs.Ran, Result: jobs.StateFailed, TaskID: "task-2", Replica: "r1", DecidedAt: start, StartedAt: start, FinishedAt: start}},
		peers: []ledger.Peer{
			{Member: ledger.Member{Replica: "r1", Workers: 64}, Session: "s1", Dead: true, JoinedAt: start},
			{Member: ledger.Member{Replica: "r1", Workers: 64}, Session: "s2", JoinedAt: start.Add(time.Second)},
			{Member: ledger.Member{Replica: "r2"}, Session: "s3", Draining: true},
		},
		locks:  []driver.Info{{Key: "sys/stripe/01", Token: 5, Session: "s", Owner: "r1"}, {Key: "user/a", Token: 6, Limit: 3, Since: start, Remaining: 2500 * time.Millisecond}, {Key: "user/a", Place: 1, Owner: "web-1/42", Meta: "./backup.sh", Shared: true}, {Key: "user/b", Token: 7}},
		keys:   map[string]jobs.Task{},
		output: map[string][]byte{"task-2": []byte("Plain \xff <script>\x00")},
		health: []wire.Condition{{Name: "store", Ready: true}},
	}
}

func (b *backend) wrote(format string, args ...any) {
	b.changes = append(b.changes, fmt.Sprintf(format, args...))
}

func (b *backend) Jobs(_ context.Context, names ...string) ([]ledger.JobStatus, error) {
	if b.panics {
		panic("the store fell over")
	}
	var rows []ledger.JobStatus
	for _, row := range b.jobs {
		if len(names) == 0 || slices.Contains(names, row.Name) {
			rows = append(rows, row)
		}
	}
	return rows, b.err
}

func (b *backend) JobNames(ctx context.Context, prefix, after string, retired bool, limit int) ([]string, error) {
	rows, err := b.Jobs(ctx)
	var names []string
	for _, row := range rows {
		if strings.HasPrefix(row.Name, prefix) && row.Name > after && (retired || row.Hash != "") && len(names) < limit {
			names = append(names, row.Name)
		}
	}
	return names, err
}

func (b *backend) NextDue(_ context.Context, n int) ([]ledger.NextDue, error) {
	return b.next[:min(n, len(b.next))], b.err
}

func (b *backend) Overview(_ context.Context, rows int) (ledger.Overview, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.looks++
	return ledger.Overview{At: time.Now(), Jobs: len(b.jobs), Recent: b.triggers[:min(rows, len(b.triggers))]}, b.err
}

func (b *backend) Triggers(_ context.Context, f wire.TriggerFilter) ([]jobs.Trigger, string, error) {
	b.filters = append(b.filters, f)
	if _, err := base64.StdEncoding.DecodeString(f.Cursor); err != nil {
		return nil, "", fmt.Errorf("%w: cursor", jobs.ErrInvalid)
	}
	return b.triggers, "bmV4dA==", b.err
}

func (b *backend) Task(_ context.Context, id string) (jobs.Task, []jobs.Attempt, error) {
	if b.err != nil {
		return jobs.Task{}, nil, b.err
	}
	for _, t := range b.tasks {
		if t.ID == id {
			var earlier []jobs.Attempt
			if t.Attempt > 1 {
				earlier = []jobs.Attempt{{Attempt: 1, State: jobs.StateFailed}}
			}
			return t, earlier, nil
		}
	}
	return jobs.Task{}, nil, fmt.Errorf("task %s: %w", id, jobs.ErrNotFound)
}

func (b *backend) Tasks(_ context.Context, f wire.TaskFilter) ([]jobs.Task, string, error) {
	b.filters = append(b.filters, f)
	return slices.Clone(b.tasks), "", b.err
}

func (b *backend) DeadLetters(_ context.Context, f wire.DeadLetterFilter) ([]wire.DeadLetters, string, error) {
	b.filters = append(b.filters, f)
	return b.dead, "", b.err
}

func (b *backend) ChangeTasks(_ context.Context, action wire.BulkAction, bulk wire.Bulk) (wire.BulkResult, error) {
	b.filters = append(b.filters, bulk)
	return wire.BulkResult{Matched: 1, Done: 1, Tasks: []wire.BulkTask{{ID: "task-1", State: jobs.StateFailed}}}, b.err
}
func (b *backend) Result(context.Context, string) ([]byte, error) { return nil, nil }

func (b *backend) Why(ctx context.Context, id string) (ledger.Facts, error) {
	t, _, err := b.Task(ctx, id)
	f := ledger.Facts{At: time.Now(), Task: t, Live: []ledger.LiveReplica{{Peer: ledger.Peer{Member: ledger.Member{Replica: "r1"}}, HasPool: true}}}
	for i := range b.pools {
		if b.pools[i].Name == t.Pool {
			f.Pool = &b.pools[i]
		}
	}
	if t.ReasonCode == reason.WaitsForLock {
		f.Waiting, f.Locks = ledger.WaitsForLocks, []ledger.LockFacts{{Key: "user/a"}}
	}
	return f, err
}

func (b *backend) WhyJob(_ context.Context, q ledger.JobQuestion) (ledger.JobFacts, error) {
	if b.err != nil {
		return ledger.JobFacts{}, b.err
	}
	for _, row := range b.jobs {
		if row.Name != q.Job {
			continue
		}
		f := ledger.JobFacts{At: time.Now(), Job: row, About: q.At, Next: ledger.Facts{At: time.Now(), Task: jobs.Task{Pool: q.Pool, Kind: q.Kind, Job: q.Job, State: jobs.StatePending}}}
		f.Next.Live = []ledger.LiveReplica{{Peer: ledger.Peer{Member: ledger.Member{Replica: "r1"}}, HasPool: true}}
		for i := range b.pools {
			if b.pools[i].Name == q.Pool {
				f.Next.Pool = &b.pools[i]
			}
		}
		if q.At.IsZero() {
			f.About = row.NextAt
		}
		for _, g := range b.triggers {
			if g.Job == q.Job && g.At.Equal(f.About) {
				f.Row, f.Next = &ledger.DecidedRow{Trigger: g}, ledger.Facts{}
			}
		}
		if len(b.history) > 0 {
			f.Definition = &b.history[0]
		}
		return f, nil
	}
	return ledger.JobFacts{}, fmt.Errorf("job %q: %w", q.Job, jobs.ErrNotFound)
}

func (b *backend) History(_ context.Context, job string, p wire.Page) (rows []wire.Definition, next string, err error) {
	for _, d := range b.history {
		if d.Job == job {
			rows = append(rows, d)
		}
	}
	return rows, "", b.err
}

func (b *backend) DefinitionID(_ context.Context, hash string) (string, error) {
	return "id of " + hash, b.err
}

func (b *backend) Output(_ context.Context, id string, attempt int) ([]byte, error) {
	if b.err != nil {
		return nil, b.err
	}
	out, ok := b.output[id]
	if !ok || attempt > 2 {
		return nil, fmt.Errorf("output of %s: %w", id, jobs.ErrNotFound)
	}
	return out, nil
}

func (b *backend) FollowOutput(ctx context.Context, id string, at ledger.OutputAt) (ledger.OutputNews, error) {
	task, _, err := b.Task(ctx, id)
	return ledger.OutputNews{Task: task, Next: ledger.OutputAt{Attempt: 1}}, err
}

func (b *backend) Pools(context.Context) ([]ledger.PoolStatus, error) { return b.pools, b.err }
func (b *backend) CountPools(context.Context) ([]ledger.PoolStatus, error) {
	return b.pools, b.err
}

func (b *backend) Replicas(context.Context) ([]ledger.Peer, error) { return b.peers, b.err }

func (b *backend) Enqueue(_ context.Context, tasks ...jobs.NewTask) ([]jobs.Enqueued, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return nil, b.err
	}
	var out []jobs.Enqueued
	for i, n := range tasks {
		for _, p := range b.pools {
			if p.Name == n.Pool && p.Kinds != nil && !slices.Contains(p.Kinds, n.Kind) && !n.Force {
				return nil, &jobs.KindError{Index: i, Pool: n.Pool, Kind: n.Kind, Kinds: p.Kinds}
			}
		}
	}
	for _, n := range tasks {
		if !slices.ContainsFunc(b.pools, func(p ledger.PoolStatus) bool { return p.Name == n.Pool }) {
			return nil, fmt.Errorf("pool %q: %w", n.Pool, jobs.ErrNotFound)
		}
		if old, ok := b.keys[n.IdempotencyKey]; ok {
			if old.Kind != n.Kind {
				return nil, fmt.Errorf("%w: the key was used with another body", jobs.ErrConflict)
			}
			out = append(out, jobs.Enqueued{Task: old, Existed: true})
			continue
		}
		t := jobs.Task{ID: fmt.Sprint("new-", len(b.changes)), Pool: n.Pool, Kind: n.Kind, Key: n.Key, State: jobs.StatePending, Priority: n.Priority, RunAt: n.RunAt, ExpiresAt: n.ExpiresAt, Tags: n.Tags, By: n.By}
		if n.IdempotencyKey != "" {
			b.keys[n.IdempotencyKey] = t
		}
		kind := n.Kind
		if n.Key != "" {
			kind += " of " + n.Key
		}
		if !n.ExpiresAt.IsZero() {
			kind += " until " + n.ExpiresAt.Format(time.RFC3339Nano)
		}
		b.wrote("enqueue %s %s %d %s %v", n.Pool, kind, n.Priority, n.Payload, n.Tags)
		out = append(out, jobs.Enqueued{Task: t})
	}
	return out, nil
}

func (b *backend) Cancel(ctx context.Context, id, by string) (jobs.Task, error) {
	t, _, err := b.Task(ctx, id)
	if err == nil && t.State.Ended() {
		err = fmt.Errorf("%w: task %s is %s", jobs.ErrConflict, id, t.State)
	}
	if err == nil {
		b.wrote("cancel %s %s", id, by)
	}
	return t, err
}

func (b *backend) UpdateTask(ctx context.Context, id string, change wire.TaskChange) (jobs.Task, error) {
	t, _, err := b.Task(ctx, id)
	if err == nil && t.State != jobs.StatePending {
		err = fmt.Errorf("%w: task %s is %s", jobs.ErrConflict, id, t.State)
	}
	if err == nil {
		text, _ := json.Marshal(change)
		b.wrote("update %s %s", id, text)
	}
	return t, err
}

func (b *backend) SuspendJob(_ context.Context, name string, by string, override *bool) error {
	for i := range b.jobs {
		if b.jobs[i].Name == name && b.err == nil {
			b.jobs[i].Override, b.jobs[i].SuspendedBy = override, by
			b.wrote("suspend %s %s %s", name, show(override), by)
			return nil
		}
	}
	return cmp.Or(b.err, fmt.Errorf("job %q: %w", name, jobs.ErrNotFound))
}

func (b *backend) SuspendJobs(ctx context.Context, names []string, by string, o ledger.Suspension) (set []string, err error) {
	if !o.Until.IsZero() && o.Until.Before(time.Now()) {
		return nil, fmt.Errorf("store: override job: %w", &jobs.FieldError{Path: "until", Problem: ledger.UntilPassed})
	}
	if !o.Until.IsZero() {
		by += " until " + o.Until.Format(time.RFC3339)
	}
	for _, name := range names {
		err := b.SuspendJob(ctx, name, by, o.Suspended)
		switch {
		case err == nil:
			set = append(set, name)
		case b.err != nil:
			return nil, b.err
		}
	}
	return set, nil
}

func (b *backend) Paused(context.Context) (ledger.Pause, error) { return b.pause, b.err }

func (b *backend) PauseAll(_ context.Context, p ledger.Pause) (ledger.Pause, error) {
	if b.err != nil {
		return ledger.Pause{}, b.err
	}
	if !p.Until.IsZero() && p.Until.Before(time.Now()) {
		return ledger.Pause{}, fmt.Errorf("store: pause: %w", &jobs.FieldError{Path: "until", Problem: ledger.UntilPassed})
	}
	p.Since = time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)
	b.pause = p
	b.wrote("pause all %s", p)
	return p, nil
}

func (b *backend) ResumeAll(context.Context) (bool, error) {
	was := b.pause.Is()
	if b.err == nil {
		b.pause = ledger.Pause{}
		b.wrote("resume all")
	}
	return was, b.err
}

func (b *backend) SkipNext(_ context.Context, name, by string, n int) error {
	for i := range b.jobs {
		if b.jobs[i].Name == name && b.err == nil {
			b.jobs[i].SkipNext, b.jobs[i].SkipBy = n, by
			b.wrote("skip %d of %s %s", n, name, by)
			return nil
		}
	}
	return cmp.Or(b.err, fmt.Errorf("job %q: %w", name, jobs.ErrNotFound))
}

var since = time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)

// Orders are two of job report, and as many more as b says.
func (b *backend) Orders(_ context.Context, f wire.OrderFilter) (rows []wire.Order, next string, err error) {
	for _, id := range []string{"task-2", "task-1"} {
		o, _ := b.Order(context.Background(), id)
		if (f.Job == "" || f.Job == o.Job) && (f.Kind == "" || f.Kind == o.Kind) && (f.State == "" || f.State == o.State) {
			rows = append(rows, o)
		}
	}
	for i := range b.orders {
		if f.Job == "report" && f.State == wire.OrderOpen {
			rows = append(rows, wire.Order{ID: fmt.Sprintf("order-%d", i), Job: f.Job, Kind: wire.OrderBackfill, State: wire.OrderOpen, CreatedAt: since})
		}
	}
	if f.Limit > 0 && len(rows) > f.Limit {
		rows, next = rows[:f.Limit], "more"
	}
	return rows, next, b.err
}

func (b *backend) Order(_ context.Context, id string) (wire.Order, error) {
	if id != "task-1" && id != "task-2" {
		return wire.Order{}, cmp.Or(b.err, fmt.Errorf("order %q: %w", id, jobs.ErrNotFound))
	}
	return wire.Order{ID: id, Job: "report", Kind: wire.OrderRun, State: wire.OrderOpen, CreatedAt: since, At: since, Payload: []byte("7")}, b.err
}

func (b *backend) CancelOrder(ctx context.Context, id, by string) (wire.Order, error) {
	o, err := b.Order(ctx, id)
	if err == nil {
		o.State = wire.OrderCancelled
		b.wrote("cancel order %s %s", id, by)
	}
	return o, err
}

func (b *backend) RunJobAt(_ context.Context, name string, run jobs.NewRun, at time.Time) (wire.Order, error) {
	if b.err == nil {
		b.wrote("order %s at %s %s %s", name, at.Format(time.RFC3339), run.Payload, run.By)
	}
	return wire.Order{ID: "task-1", Job: name, Kind: wire.OrderRun, State: wire.OrderOpen, CreatedAt: since, At: at}, b.err
}

func (b *backend) Backfill(_ context.Context, name, by string, n wire.NewBackfill) (wire.Order, error) {
	if b.err == nil {
		b.wrote("backfill %s %s to %s %d %s %v %s", name, n.From.Format(time.RFC3339), n.To.Format(time.RFC3339), n.MaxRunning, n.Rate, n.Again, by)
	}
	return wire.Order{ID: "task-1", Job: name, Kind: wire.OrderBackfill, State: wire.OrderOpen, CreatedAt: since, Backfill: &wire.Backfill{NewBackfill: n}}, b.err
}

func (b *backend) PreviewBackfill(_ context.Context, _ string, n wire.NewBackfill) (wire.BackfillPreview, error) {
	return wire.BackfillPreview{NewBackfill: n, DueTimes: 3, Ran: 1}, b.err
}

func (b *backend) PausePool(_ context.Context, name string, by string, override *bool) error {
	for i := range b.pools {
		if b.pools[i].Name == name && b.err == nil {
			b.pools[i].Paused = override
			b.wrote("pause %s %s %s", name, show(override), by)
			return nil
		}
	}
	return cmp.Or(b.err, fmt.Errorf("pool %q: %w", name, jobs.ErrNotFound))
}

func (b *backend) LimitPool(_ context.Context, name string, by string, o *wire.PoolLimits) error {
	for i := range b.pools {
		if p := &b.pools[i]; p.Name == name && p.Hash != "" && b.err == nil {
			p.Override, p.LimitsBy = o, by
			if o == nil {
				p.LimitsBy = ""
			} else {
				p.Limits = p.Limits.Under(*o)
			}
			text, _ := json.Marshal(o)
			b.wrote("limit %s %s %s", name, text, by)
			return nil
		}
	}
	return cmp.Or(b.err, fmt.Errorf("pool %q: %w", name, jobs.ErrNotFound))
}

func show(b *bool) string {
	if b == nil {
		return "reset"
	}
	return fmt.Sprint(*b)
}

func (b *backend) ID() string { return "r1" }

func (b *backend) Set() jobs.Set { return b.set }

func (b *backend) Runs(pool, kind string) bool {
	p, known := b.set.Pools[pool]
	return known && slices.Contains(ledger.KindsOf(p), kind)
}

func (b *backend) Loaded() bool { return !b.starting }

func (b *backend) RunJobWith(_ context.Context, name string, run jobs.NewRun) (jobs.Trigger, jobs.Task, error) {
	by, force := run.By, run.Force
	payload, err := run.Encode()
	if err == nil && len(payload) > 0 {
		var params *jobs.Params
		if params, err = b.set.Jobs[name].CompileParams(); err == nil {
			err = params.Check(payload)
		}
		by += " with " + string(payload)
	}
	if err != nil {
		return jobs.Trigger{}, jobs.Task{}, fmt.Errorf("run job %q: %w", name, err)
	}
	switch {
	case b.err != nil:
		return jobs.Trigger{}, jobs.Task{}, b.err
	case name == "report":
		b.wrote("run %s %s", name, by)
		return jobs.Trigger{Job: name, By: by, Cause: jobs.CauseManual}, b.tasks[0], nil
	case name == "backup" && force == "task-1":
		b.wrote("force %s %s", name, by)
		return jobs.Trigger{Job: name, By: by, Cause: jobs.CauseManual, Reason: "forced although task-1"}, b.tasks[0], nil
	case name == "backup":
		return jobs.Trigger{}, jobs.Task{}, fmt.Errorf("run: %w", &jobs.LostError{Job: name, Force: "task-1", Reason: "task-1 has the slot"})
	}
	return jobs.Trigger{}, jobs.Task{}, fmt.Errorf("job %q: %w", name, jobs.ErrNotFound)
}

func (b *backend) Retry(ctx context.Context, id, by, force string) (jobs.Task, error) {
	t, _, err := b.Task(ctx, id)
	if err == nil && !t.State.Ended() {
		err = fmt.Errorf("%w: task %s is %s", jobs.ErrConflict, id, t.State)
	}
	if err == nil && t.Kind == "gone" && force == "" {
		err = &jobs.KindError{Pool: t.Pool, Kind: t.Kind, Kinds: []string{"bye"}}
	}
	if err == nil {
		b.wrote("retry %s %s", id, by)
	}
	return t, err
}

func (b *backend) Wake(pools ...string)     { b.wrote("wake %v", pools) }
func (b *backend) Health() []wire.Condition { return b.health }

func (b *backend) Inspect(ctx context.Context, prefix string) iter.Seq2[driver.Info, error] {
	return b.InspectAfter(ctx, prefix, "")
}

func (b *backend) InspectAfter(_ context.Context, prefix, after string) iter.Seq2[driver.Info, error] {
	return func(yield func(driver.Info, error) bool) {
		for _, info := range b.locks {
			if strings.HasPrefix(info.Key, prefix) && info.Key > after && !yield(info, nil) {
				return
			}
		}
		if err := cmp.Or(b.err, b.lockErr); err != nil {
			yield(driver.Info{}, err)
		}
	}
}

func (b *backend) ForceRelease(_ context.Context, key string, token driver.Token) (bool, error) {
	for _, info := range b.locks {
		if info.Key == key && info.Token == token && b.err == nil {
			b.wrote("release %s %d", key, token)
			return true, nil
		}
	}
	return false, b.err
}

func (b *backend) AddAudit(ctx context.Context, e wire.AuditEntry) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	b.audit = append(b.audit, e)
	return b.err
}

func (b *backend) AuditEntries(context.Context, wire.Page) ([]wire.AuditEntry, string, error) {
	return b.audit, "", b.err
}

func (b *backend) api(o Options) http.Handler {
	return New(b.backend(), o)
}

func (b *backend) backend() Backend {
	return Backend{Store: ledger.Sides{API: b, Audit: b}, Replica: b, Locks: b, Audit: true, Reload: b.reload}
}

// reload is that of a configuration in which a job was added.
func (b *backend) reload(_ context.Context, activate bool) (wire.Reloaded, error) {
	if b.err != nil {
		return wire.Reloaded{}, b.err
	}
	b.wrote("reload, activate %v", activate)
	return wire.Reloaded{Replica: "replica-1", Config: 3, Governs: true, Jobs: wire.Changed{Added: []string{"report"}}}, nil
}

// ask sends a request as from this machine, with options.
func ask(t *testing.T, h http.Handler, method, target, body string, change ...func(*http.Request)) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, "/", strings.NewReader(body))
	r.Host, r.RemoteAddr = "127.0.0.1:8080", "127.0.0.1:55555"
	u, err := url.Parse("http://127.0.0.1:8080" + target)
	if err != nil {
		t.Fatal(err)
	}
	r.URL = u
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, c := range change {
		c(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func header(name string, values ...string) func(*http.Request) {
	return func(r *http.Request) { r.Header[http.CanonicalHeaderKey(name)] = values }
}

func decode[T any](t *testing.T, text string) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return v
}
