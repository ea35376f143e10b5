package scheduler_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/naming"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/httphandler"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/store"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

// inbox is a handler that keeps its notifications.
type inbox struct {
	mu   sync.Mutex
	told []jobs.Notification
}

func (b *inbox) Run(_ context.Context, t jobs.Task, _ io.Writer) error {
	var n jobs.Notification
	if err := json.Unmarshal(t.Payload, &n); err != nil {
		return jobs.Cancel(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.told = append(b.told, n)
	return nil
}

func (b *inbox) Describe() string { return "inbox" }

// byID are the notifications and how often each came.
func (b *inbox) byID() map[string]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	count := map[string]int{}
	for _, n := range b.told {
		count[n.ID]++
	}
	return count
}

// wants waits until exactly these events were notified, in any order, as "failed job a", and returns them.
func (b *inbox) wants(t *testing.T, events ...string) []jobs.Notification {
	t.Helper()
	await.Until(t, "all is told", func() bool { return len(b.byID()) >= len(events) })
	b.mu.Lock()
	defer b.mu.Unlock()
	var got []string
	for _, n := range b.told {
		who := "pool " + n.Pool
		if n.Job != "" {
			who = "job " + n.Job
		}
		got = append(got, string(n.Event)+" "+who)
	}
	if d := cmp.Diff(events, got, cmpopts.SortSlices(func(a, b string) bool { return a < b })); d != "" {
		t.Error(d)
	}
	return b.told
}

// fails returns an error while it is told to.
type fails struct{ atomic.Bool }

func (f *fails) Run(context.Context, jobs.Task, io.Writer) error {
	if f.Load() {
		return errors.New("no luck\nat all")
	}
	return nil
}

func (f *fails) Describe() string { return "fails" }

func TestWhoAskedIsTold(t *testing.T) {
	t.Parallel()
	for _, db := range []database{sqlite(t), mysql(t)} {
		t.Run(db.driver, func(t *testing.T) {
			st := db.open(t)
			all, some := &inbox{}, does(func(context.Context, jobs.Task, io.Writer) error { return errors.New("told of what nobody asked for") })
			work := &fails{}
			work.Store(true)
			once := jobs.Retries{Limit: jobs.NoRetries}
			set := jobs.Set{
				Name: "prod",
				Pools: map[string]jobs.Pool{
					"p":     {Handler: work, Retries: once, Notify: jobs.Notify{Handler: all}},
					"quiet": {Handler: work, Retries: once},
				},
				Jobs: map[string]jobs.Job{
					"a":    {Handler: work, Notify: jobs.Notify{Handler: all, On: []jobs.Event{jobs.EventRecovered, jobs.EventFailed}}},
					"none": {Handler: work, Notify: jobs.Notify{Handler: some, On: []jobs.Event{}}},
					"lost": {Handler: work, Notify: jobs.Notify{Handler: some, On: []jobs.Event{jobs.EventLost}}},
				},
			}
			r := start(t, st, nil, set, scheduler.Options{ID: "a"})
			run := func(job string) (done jobs.Task) {
				t.Helper()
				await.Until(t, "job "+job+" runs", func() bool {
					_, opened, err := r.RunJob(t.Context(), job, "", "")
					if err == nil {
						done = ended(t, st, opened.ID)
					}
					return err == nil
				})
				return done
			}
			failed := run("a")
			run("none")
			run("lost")
			ended(t, st, enqueue(t, st, r, 1)[0])
			if _, err := st.Enqueue(t.Context(), jobs.NewTask{Pool: "quiet"}); err != nil {
				t.Fatal(err)
			}
			told := all.wants(t, "failed job a", "failed pool p")
			for _, n := range told {
				if n.Job == "" {
					continue
				}
				want := jobs.Notification{
					ID: "failed/" + failed.ID, Event: jobs.EventFailed, Name: "prod", Job: "a", Pool: "default",
					Text:        "[prod] job a failed, the run of " + failed.ScheduledAt.Format(time.RFC3339Nano) + ": no luck",
					ScheduledAt: failed.ScheduledAt, TaskID: failed.ID, Attempt: 1, Replica: "a", ReasonCode: "error", Error: "no luck\nat all", At: failed.FinishedAt,
				}
				if d := cmp.Diff(want, n); d != "" {
					t.Error(d)
				}
			}
			work.Store(false)
			run("a")
			run("a")
			run("none")
			ended(t, st, enqueue(t, st, r, 1)[0])
			all.wants(t, "failed job a", "failed pool p", "recovered job a", "recovered pool p")
			await.Until(t, "nothing is left to tell", func() bool { return events(t, st) == 0 })
		})
	}
}

// events is how many wait to be routed; nothing is deleted or sent.
func events(t *testing.T, st *store.Store) int {
	t.Helper()
	n, err := st.Sides().Replica.Notify(t.Context(), ledger.Notify{Limit: 500, Route: func(time.Time, ledger.Event) ledger.Route { return ledger.Route{Keep: true} }})
	if err != nil {
		t.Fatal(err)
	}
	return n.Kept
}

// A webhook that does not answer delays neither jobs nor pools, even in a replica with fewer workers
// than notifications have; when it is back, each notification is sent once.
func TestADeadWebhookDelaysNothing(t *testing.T) {
	const tasks = 1000
	back := make(chan struct{})
	var hanging atomic.Int32
	got := &inbox{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		select {
		case <-back:
		default:
			hanging.Add(1)
			<-back
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		if r.Header.Get("Content-Type") != "application/json" || r.Header.Get("Idempotency-Key") == "" {
			t.Errorf("headers are %v", r.Header)
		}
		if err := got.Run(r.Context(), jobs.Task{Payload: body}, io.Discard); err != nil {
			t.Errorf("%s: %v", body, err)
		}
	}))
	comeBack := sync.OnceFunc(func() { close(back) })
	defer server.Close()
	defer comeBack()
	hook, err := httphandler.New(httphandler.Request{URL: server.URL, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	work := &fails{}
	work.Store(true)
	st := sqlite(t).open(t)
	ticks := &starts{}
	r := start(t, st, nil, jobs.Set{
		Pools: map[string]jobs.Pool{
			"p": {Handler: work, Retries: jobs.Retries{Limit: jobs.NoRetries}, Notify: jobs.Notify{Handler: hook}},
			naming.NotificationsPool: {
				Workers: 8, Retries: jobs.Retries{Limit: 1000, Backoff: 100 * time.Millisecond, MaxBackoff: 500 * time.Millisecond},
			},
		},
		Jobs: map[string]jobs.Job{"tick": {Schedule: "* * * * * *", Handler: ticks}},
	}, scheduler.Options{ID: "a", Workers: 2})
	first := enqueue(t, st, r, 8)
	await.Until(t, "all workers of notifications wait", func() bool { return hanging.Load() >= 8 })
	for _, id := range append(first, enqueue(t, st, r, tasks-8)...) {
		ended(t, st, id)
	}
	before := ticks.count()
	await.Until(t, "the job goes on", func() bool { return ticks.count() >= before+2 })
	for _, row := range ledgerOf(t, st, "tick") {
		if late := row.StartedAt.Sub(row.At); row.Outcome == jobs.Ran && late > 5*time.Second {
			t.Errorf("%v started %v late", row.At, late)
		}
	}
	if n := len(got.byID()); n != 0 {
		t.Errorf("%d were told by a dead webhook", n)
	}
	comeBack()
	for n := 100; n <= tasks; n += 100 { // a busy machine has some time for each
		await.Until(t, "everything is told", func() bool { return len(got.byID()) >= n })
	}
	for id, n := range got.byID() {
		if n != 1 {
			t.Errorf("%s was told %d times", id, n)
		}
	}
}

// A replica without the definition leaves the event to one that has it, and each notification is sent
// once, whatever replica looks.
func TestReplicasShareNotifications(t *testing.T) {
	t.Parallel()
	for _, db := range []database{sqlite(t), mysql(t)} {
		t.Run(db.driver, func(t *testing.T) {
			told := &inbox{}
			work := &fails{}
			work.Store(true)
			set := func(n jobs.Notify) jobs.Set {
				return jobs.Set{Pools: map[string]jobs.Pool{"p": {Handler: work, Retries: jobs.Retries{Limit: jobs.NoRetries}, Notify: n}}}
			}
			old := start(t, db.open(t), nil, set(jobs.Notify{}), scheduler.Options{ID: "old"})
			enqueue(t, db.open(t), old, 1)
			for _, id := range []string{"a", "b"} {
				start(t, db.open(t), nil, set(jobs.Notify{Handler: told}), scheduler.Options{ID: id})
			}
			st := db.open(t)
			await.Until(t, "the new definition holds", func() bool {
				pools, err := st.Sides().API.Pools(t.Context())
				return err == nil && len(pools) == 3
			})
			const n = 100
			for _, id := range enqueue(t, st, nil, n) {
				ended(t, st, id)
			}
			await.Until(t, "all is told", func() bool { return len(told.byID()) >= n })
			await.Until(t, "nothing is left", func() bool { return events(t, st) == 0 })
			for id, count := range told.byID() {
				if count != 1 {
					t.Errorf("%s was told %d times", id, count)
				}
			}
		})
	}
}
