package storetest

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// Each filter leaves out what it is not about.
func bulkFilters(t *testing.T, b *Bench) {
	s := newScene(t, b)
	ids := s.fails("work", "a", "b", "c", "d")
	s.endAs("work", jobs.StateSucceeded, "")
	s.DB.Exec(t, "UPDATE {done} SET kind='k' WHERE id=?", ids[0])
	s.DB.Exec(t, "UPDATE {done} SET task_key='ann' WHERE id=?", ids[1])
	s.DB.Exec(t, "UPDATE {done} SET tags=? WHERE id=?", []byte(`["x","y"]`), ids[2])
	s.DB.Exec(t, "UPDATE {done} SET job='a' WHERE id=?", ids[3])
	for i, id := range ids {
		s.DB.Exec(t, "UPDATE {done} SET finished_at=? WHERE id=?", due(i).UnixMicro(), id)
	}
	for name, c := range map[string]struct {
		match wire.TaskMatch
		want  []string
	}{
		"pool":         {wire.TaskMatch{Pool: "work"}, []string{ids[3], ids[2], ids[1], ids[0]}},
		"other pool":   {wire.TaskMatch{Pool: "default"}, nil},
		"kind":         {wire.TaskMatch{Pool: "work", Kind: "k"}, ids[:1]},
		"key":          {wire.TaskMatch{Pool: "work", Key: "ann"}, ids[1:2]},
		"tag":          {wire.TaskMatch{Pool: "work", Tag: "y"}, ids[2:3]},
		"part of tag":  {wire.TaskMatch{Pool: "work", Tag: ""}, []string{ids[3], ids[2], ids[1], ids[0]}},
		"no such tag":  {wire.TaskMatch{Pool: "work", Tag: "xy"}, nil},
		"job":          {wire.TaskMatch{Job: "a"}, ids[3:]},
		"state":        {wire.TaskMatch{Pool: "work", State: jobs.StateLost}, nil},
		"since":        {wire.TaskMatch{Pool: "work", Since: due(2)}, []string{ids[3], ids[2]}},
		"until":        {wire.TaskMatch{Pool: "work", Until: due(1)}, ids[:1]},
		"ids":          {wire.TaskMatch{IDs: []string{ids[0], ids[3]}}, []string{ids[3], ids[0]}},
		"ids and kind": {wire.TaskMatch{IDs: []string{ids[0], ids[3]}, Kind: "k"}, ids[:1]},
	} {
		b := wire.Bulk{TaskMatch: withState(c.match), DryRun: true}
		if c.match.IDs == nil {
			b.Limit = 3
		}
		got := s.changeAll(wire.BulkPurge, b)
		if d := cmp.Diff(append([]string{}, c.want...), append([]string{}, idsOf(got.Tasks)...)); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

// withState leaves out the task that succeeded.
func withState(m wire.TaskMatch) wire.TaskMatch {
	if m.State == "" {
		m.State = jobs.StateFailed
	}
	return m
}

// What could mean all tasks, or none, is refused, by the name of what is wrong.
func bulkRefused(t *testing.T, b *Bench) {
	s := newScene(t, b)
	ids := s.fails("work", "a")
	pool := func(m wire.TaskMatch) wire.TaskMatch { m.Pool = "work"; return m }
	for name, c := range map[string]struct {
		action wire.BulkAction
		b      wire.Bulk
		field  string
	}{
		"nothing":        {wire.BulkPurge, wire.Bulk{}, "pool"},
		"no ids":         {wire.BulkPurge, wire.Bulk{TaskMatch: wire.TaskMatch{Pool: "a", IDs: []string{}}}, "ids"},
		"only a kind":    {wire.BulkRetry, wire.Bulk{TaskMatch: wire.TaskMatch{Kind: "k"}}, "pool"},
		"many ids":       {wire.BulkRetry, wire.Bulk{TaskMatch: wire.TaskMatch{IDs: slices.Repeat(ids, 501)}}, "ids"},
		"ids and cursor": {wire.BulkRetry, wire.Bulk{TaskMatch: wire.TaskMatch{IDs: ids}, Cursor: "x"}, "cursor"},
		"ids and limit":  {wire.BulkRetry, wire.Bulk{TaskMatch: wire.TaskMatch{IDs: ids}, Limit: 1}, "limit"},
		"open":           {wire.BulkRetry, wire.Bulk{TaskMatch: pool(wire.TaskMatch{State: jobs.StatePending})}, "state"},
		"ended":          {wire.BulkCancel, wire.Bulk{TaskMatch: pool(wire.TaskMatch{State: jobs.StateFailed})}, "state"},
		"no state":       {wire.BulkPurge, wire.Bulk{TaskMatch: pool(wire.TaskMatch{State: "x"})}, "state"},
		"fingerprint":    {wire.BulkRetry, wire.Bulk{TaskMatch: pool(wire.TaskMatch{Fingerprint: "x"})}, "fingerprint"},
		"without pool":   {wire.BulkRetry, wire.Bulk{TaskMatch: wire.TaskMatch{Job: "a", Fingerprint: "0123456789abcdef"}}, "fingerprint"},
		"of open":        {wire.BulkCancel, wire.Bulk{TaskMatch: pool(wire.TaskMatch{Fingerprint: "0123456789abcdef"})}, "fingerprint"},
		"force":          {wire.BulkPurge, wire.Bulk{TaskMatch: pool(wire.TaskMatch{}), Force: true}, "force"},
		"times":          {wire.BulkPurge, wire.Bulk{TaskMatch: pool(wire.TaskMatch{Since: due(1), Until: due(1)})}, "until"},
		"limit":          {wire.BulkPurge, wire.Bulk{TaskMatch: pool(wire.TaskMatch{}), Limit: 501}, "limit"},
	} {
		_, err := s.Store.ChangeTasks(s.ctx(), c.action, c.b)
		if wrong, is := errors.AsType[*jobs.FieldError](err); !is || wrong.Path != c.field || !errors.Is(err, jobs.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := s.Store.ChangeTasks(s.ctx(), wire.BulkPurge, wire.Bulk{TaskMatch: pool(wire.TaskMatch{}), Cursor: "x"}); !errors.Is(err, jobs.ErrInvalid) {
		t.Errorf("a cursor: %v", err)
	}
	s.wantInt(1, "SELECT COUNT(*) FROM {done}")
}

// A batch looks at so many tasks, and says where the next one goes on.
func bulkLooks(t *testing.T, b *Bench) {
	s := newScene(t, b)
	ids := s.fails("work", slices.Repeat([]string{"x"}, 2501)...)
	s.DB.Exec(t, "UPDATE {done} SET kind='k' WHERE id=?", ids[0])
	filter := wire.Bulk{TaskMatch: wire.TaskMatch{Pool: "work", Kind: "k"}}
	first := s.change(wire.BulkPurge, filter)
	if first.Matched != 0 || first.Next == "" {
		t.Fatalf("the first batch: %+v", first)
	}
	filter.Cursor = first.Next
	if second := s.change(wire.BulkPurge, filter); second.Done != 1 || second.Next != "" {
		t.Errorf("the second batch: %+v", second)
	}
}
