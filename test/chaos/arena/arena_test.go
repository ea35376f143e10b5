package arena

import (
	"context"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
	"github.com/lockstep-scheduler/lockstep/test/chaos/proxy"
	"github.com/lockstep-scheduler/lockstep/test/program"
)

func TestMain(m *testing.M) { os.Exit(program.Main(m)) }

// A cell comes up, its jobs run, each edge is its replica's own, and everything is seen.
func TestArena(t *testing.T) {
	a := Open(t, Cell{MariaDB, Redis}, t.TempDir(), Options{})
	began := time.Now()
	for _, r := range a.Replicas {
		if store, lock := r.StoreEdge[0].Counts(), r.LockEdges[0].Counts(); store.Up == 0 || lock.Up == 0 {
			t.Errorf("%s: nothing went over its edges: %+v, %+v", r.ID, store, lock)
		}
	}
	r1, r2 := a.Replicas[0], a.Replicas[1]
	r1.StoreEdge[0].Set(proxy.BlackHole)
	program.Within(t, 15*time.Second, "who is cut from the store is not ready, and the others are", func() bool {
		return !r1.ready(t.Context()) && r2.ready(t.Context())
	})
	r1.StoreEdge[0].Set(proxy.Fault{})
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	defer cancel()
	if err := r2.KillGroup(); err != nil {
		t.Fatal(err)
	}
	if r2.Alive() {
		t.Error("r2 runs after it was killed")
	}
	if err := r2.Start(); err != nil {
		t.Fatal(err)
	}
	if err := a.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	for _, r := range a.Replicas {
		if err := r.Drain(ctx); err != nil {
			t.Error(err)
		}
	}
	for _, err := range []error{a.Export(ctx), history.Write(a.Dir, history.RunFile, history.Run{}), a.Err()} {
		if err != nil {
			t.Error(err)
		}
	}

	h, err := history.Read(a.Dir)
	if err != nil {
		t.Fatal(err)
	}
	started := map[string]bool{} // by job and due time
	for _, e := range h.Effects {
		if e.What == history.Start && !e.ScheduledAt.IsZero() {
			started[e.Job+e.ScheduledAt.String()] = true
		}
	}
	if want := int(time.Since(began) / time.Second); len(started) < want {
		t.Errorf("%d due times of jobs started in %d s", len(started), want)
	}
	for _, table := range []string{"jobs", "triggers", "tasks", "done", "sessions"} {
		if !slices.ContainsFunc(h.Audit, func(c history.Change) bool { return c.Table == table }) {
			t.Errorf("no change of %s was seen", table)
		}
	}
	if len(h.Final.Triggers) < len(started) {
		t.Errorf("%d triggers at the end, %d due times started", len(h.Final.Triggers), len(started))
	}
	var how []string
	for _, p := range h.Processes {
		how = append(how, p.Replica+" "+p.How)
		if p.Ready.IsZero() {
			t.Errorf("%+v was never ready", p)
		}
	}
	slices.Sort(how)
	if want := []string{"r1 drained", "r2 drained", "r2 group killed", "r3 drained"}; !slices.Equal(how, want) {
		t.Errorf("processes: %q, want %q", how, want)
	}
}
