// Package schedulertest runs a [jobs.Set] in tests: on a database in memory, through the code that
// runs it in production, and without a goroutine that outlives the call.
//
//	b := schedulertest.New(t, set, schedulertest.Options{})
//	b.Enqueue(jobs.NewTask{Pool: "mail", Kind: "welcome", Payload: Welcome{7}})
//	for _, task := range b.Drain() {
//		if task.State != jobs.StateSucceeded {
//			t.Errorf("%s: %s", task.Kind, task.Error)
//		}
//	}
//
// Nothing runs between the calls, and no schedule fires on its own: [Bench.Drain] does what is due and
// stops, [Bench.Fire] and [Bench.FireAt] run a job as well. Code under test that enqueues takes
// [Bench.Store], and [Bench.DB] for its own tables; what it enqueued is in [Bench.Pending].
//
// Within a [testing/synctest] bubble, [Bench.RunUntil] goes through schedules, delays and retries of
// days in milliseconds; only what a handler itself waits for costs more, about a second for each hour.
// The Bench must be made inside the bubble, and fails the test otherwise. Nothing else differs there.
package schedulertest
