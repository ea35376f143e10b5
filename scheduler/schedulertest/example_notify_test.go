package schedulertest_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/schedulertest"
)

// tell gets each notification at least once; n.ID is the same each time.
func tell(ctx context.Context, t jobs.Task, n jobs.Notification) error {
	fmt.Println(n.Event, n.Job, n.Error)
	return nil
}

// A job that fails, and a function that gets its notification.
func ExampleBench_Fire_notifications() {
	backup := jobs.Func(func(context.Context, jobs.Task, struct{}) error { return errors.New("disk full") })
	set := jobs.Set{Jobs: map[string]jobs.Job{
		"backup": {Handler: backup, Notify: jobs.Notify{
			On:      []jobs.Event{jobs.EventFailed, jobs.EventLost},
			Handler: jobs.Func(tell),
		}},
	}}
	b := schedulertest.New(exampleT(), set, schedulertest.Options{})
	b.Fire("backup")
	// Output:
	// failed backup disk full
}
