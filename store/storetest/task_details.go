package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// listedBy are all tasks that a filter lists, in pages of that size, and how many pages there were.
func listedBy(t *testing.T, b *Bench, f wire.TaskFilter) (ids []string, pages int) {
	t.Helper()
	for ; ; pages++ {
		rows, next, err := b.SQL().Tasks(t.Context(), f)
		must(t, err)
		if len(rows) > f.Limit {
			t.Fatalf("a page of %d has %d", f.Limit, len(rows))
		}
		for _, r := range rows {
			ids = append(ids, r.ID)
		}
		if f.Cursor = next; next == "" {
			return ids, pages + 1
		}
	}
}

// Tasks are selected by what no index has, each once, whatever the size of the pages.
func viewTaskDetails(t *testing.T, b *Bench) {
	Pools(t, b, Join(t, b, "a"), "p", "q")
	var all []jobs.Task
	for i := range 12 {
		n := jobs.NewTask{Pool: []string{"p", "q"}[i%2], Kind: []string{"", "mail"}[i/2%2], Key: []string{"", "a", "b"}[i%3], Payload: i}
		if i%4 < 2 {
			n.Tags = []string{"x", fmt.Sprint("t", i)}
		}
		all = append(all, Enqueue(t, b, n)[0].Task)
	}
	started := time.Now()
	for i, task := range all[:6] {
		end(t, b, task.ID, []jobs.State{jobs.StateSucceeded, jobs.StateFailed}[i%2])
		b.DB.Exec(t, "UPDATE {done} SET finished_at=? WHERE id=?", started.Add(time.Duration(i)*time.Hour).UnixMicro(), task.ID)
	}
	ended := func(i int) time.Time { return started.Add(time.Duration(i) * time.Hour).Truncate(time.Microsecond) }
	for name, c := range map[string]struct {
		f    wire.TaskFilter
		want func(i int) bool
	}{
		"kind":             {wire.TaskFilter{TaskDetails: wire.TaskDetails{Kind: "mail"}}, func(i int) bool { return i/2%2 == 1 }},
		"key":              {wire.TaskFilter{TaskDetails: wire.TaskDetails{Key: "a"}}, func(i int) bool { return i%3 == 1 }},
		"tag":              {wire.TaskFilter{TaskDetails: wire.TaskDetails{Tag: "x"}}, func(i int) bool { return i%4 < 2 }},
		"a part of a tag":  {wire.TaskFilter{TaskDetails: wire.TaskDetails{Tag: "t"}}, func(int) bool { return false }},
		"pool and key":     {wire.TaskFilter{Pool: "p", TaskDetails: wire.TaskDetails{Key: "b"}}, func(i int) bool { return i%2 == 0 && i%3 == 2 }},
		"failed of a kind": {wire.TaskFilter{State: jobs.StateFailed, TaskDetails: wire.TaskDetails{Kind: "mail"}}, func(i int) bool { return i == 3 }},
		"pending":          {wire.TaskFilter{State: jobs.StatePending, TaskDetails: wire.TaskDetails{Tag: "x", Kind: "mail"}}, func(int) bool { return false }},
		"pending of a key": {wire.TaskFilter{State: jobs.StatePending, TaskDetails: wire.TaskDetails{Key: "a"}}, func(i int) bool { return i == 7 || i == 10 }},
		"since":            {wire.TaskFilter{TaskDetails: wire.TaskDetails{Since: ended(4)}}, func(i int) bool { return i == 4 || i == 5 }},
		"until":            {wire.TaskFilter{Pool: "q", TaskDetails: wire.TaskDetails{Until: ended(3)}}, func(i int) bool { return i == 1 || i >= 6 && i%2 == 1 }},
		"between":          {wire.TaskFilter{TaskDetails: wire.TaskDetails{Since: ended(1), Until: ended(3)}}, func(i int) bool { return i == 1 || i == 2 }},
	} {
		t.Run(name, func(t *testing.T) {
			var want []string
			for i := len(all) - 1; i >= 0; i-- {
				if c.want(i) {
					want = append(want, all[i].ID)
				}
			}
			for _, limit := range []int{1, 2, 500} {
				c.f.Page = wire.Page{Limit: limit}
				if got, _ := listedBy(t, b, c.f); !cmp.Equal(got, want) {
					t.Errorf("pages of %d: %s", limit, cmp.Diff(want, got))
				}
			}
		})
	}
}

// A page looks at a bounded number of tasks: it may be empty, and the next one has the rest.
func viewManyDetails(t *testing.T, b *Bench) {
	Pools(t, b, Join(t, b, "a"), "p")
	first := Enqueue(t, b, jobs.NewTask{Pool: "p", Key: "rare"})[0].Task.ID
	many := make([]jobs.NewTask, 500)
	for i := range many {
		many[i] = newTask("p")
	}
	for range 5 {
		Enqueue(t, b, many...)
	}
	last := Enqueue(t, b, jobs.NewTask{Pool: "p", Key: "rare"})[0].Task.ID
	got, pages := listedBy(t, b, wire.TaskFilter{TaskDetails: wire.TaskDetails{Key: "rare"}, Page: wire.Page{Limit: 50}})
	if !cmp.Equal(got, []string{last, first}) || pages != 2 {
		t.Errorf("%v in %d pages, want %v in 2", got, pages, []string{last, first})
	}
	rows, next, err := b.SQL().Tasks(t.Context(), wire.TaskFilter{TaskDetails: wire.TaskDetails{Key: "none"}})
	if must(t, err); len(rows) > 0 || next == "" {
		t.Errorf("%d tasks, next %q", len(rows), next)
	}
}
