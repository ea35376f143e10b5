package api

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// counted sums the counts of rows.
func counted(rows []wire.AuditEntry) (n int) {
	for _, e := range rows {
		n += max(1, e.Count)
	}
	return n
}

// TestManyRefusals: 10,000 refused writes have few rows, whose counts are 10,000; every successful write has its row.
func TestManyRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := newTokenSet()
		b := newBackend()
		h := b.api(Options{Access: keys})
		for i := range 10_000 {
			target := []string{"/api/v1/jobs/report/run", "/api/v1/jobs/backup/run", "/api/v1/tasks/task-1/cancel"}[i%3]
			if w := ask(t, h, "POST", target, "", with(keys.secrets[Viewer])); w.Code != 403 {
				t.Fatal(w.Code)
			}
			if i%1000 == 0 { // beside others
				ask(t, h, "POST", "/api/v1/jobs/report/run", "", with(keys.secrets[Operator]))
				ask(t, h, "POST", "/api/v1/pools/mail/tasks", "{", with(keys.secrets[Admin]))
			}
		}
		time.Sleep(time.Minute)
		b.mu.Lock()
		defer b.mu.Unlock()
		var viewer []wire.AuditEntry
		done, bad := 0, 0
		for _, e := range b.audit {
			switch {
			case e.Who == "my-viewer" && e.Status == 403:
				viewer = append(viewer, e)
			case e.Who == "my-operator" && e.Status == 201 && e.TaskID == "task-1" && e.Tasks == 1:
				done++
			case e.Who == "my-admin" && e.Status == 400 && e.Object == "mail":
				bad++
			default:
				t.Errorf("%+v", e)
			}
		}
		if len(viewer) > refusedBurst+2 || counted(viewer) != 10_000 || done != 10 || bad != 10 {
			t.Errorf("%d rows of %d refusals, %d of what was done, %d of the bad ones", len(viewer), counted(viewer), done, bad)
		}
		for _, e := range viewer[refusedBurst:] {
			object := map[string]string{"POST /jobs/{name}/run": "", "POST /tasks/{id}/cancel": "task-1"}[e.Action]
			if e.Count < 3000 || e.Role != "viewer" || e.Remote != "127.0.0.1" || e.Object != object {
				t.Errorf("%+v", e)
			}
		}
	})
}

// TestRefusalsAreKept: rows that cannot be written are retried, and logged when the program ends.
func TestRefusalsAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBackend()
		var logged strings.Builder
		h := New(b.backend(), Options{Logger: textLogger(&logged)})
		refuse := func(n int) {
			for range n {
				ask(t, h, "POST", "/api/v1/pools/none/tasks", "{}")
			}
		}
		refuse(refusedBurst + 5)
		if len(b.audit) != refusedBurst {
			t.Fatalf("%d rows", len(b.audit))
		}
		b.mu.Lock()
		b.err = fmt.Errorf("disk: %w", jobs.ErrUnavailable)
		b.audit = nil
		b.mu.Unlock()
		time.Sleep(refusedHold + time.Second)
		b.mu.Lock()
		b.err, b.audit = nil, nil // what it was told meanwhile it did not keep
		b.mu.Unlock()
		h.Flush(t.Context())
		if counted(b.audit) != 5 || len(b.audit) != 1 || b.audit[0].Status != 404 || b.audit[0].Object != "none" || strings.Contains(logged.String(), "audit entry not written") {
			t.Errorf("%+v\n%s", b.audit, &logged)
		}
		h.Flush(t.Context())
		time.Sleep(2 * refusedHold)
		if len(b.audit) != 1 {
			t.Errorf("written again: %+v", b.audit)
		}

		h = New(b.backend(), Options{Logger: textLogger(&logged)})
		refuse(refusedBurst + 7)
		b.mu.Lock()
		b.err = fmt.Errorf("disk: %w", jobs.ErrUnavailable)
		b.mu.Unlock()
		h.Flush(t.Context())
		if said := logged.String(); !strings.Contains(said, "audit entry not written") || !strings.Contains(said, "count=") {
			t.Errorf("the log: %s", said)
		}
		b.mu.Lock()
		b.err, b.audit = nil, nil
		b.mu.Unlock()
		time.Sleep(2 * refusedHold)
		if len(b.audit) != 0 {
			t.Errorf("after the last Flush: %+v", b.audit)
		}
	})
}

// TestRefusalsAreBounded: the state kept of refusals is bounded for any number of parties, and none is left out.
func TestRefusalsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rows []wire.AuditEntry
		f := &refused{write: func(e wire.AuditEntry) error { rows = append(rows, e); return nil }}
		const parties, each = 5 * refusedKinds, refusedBurst + 2
		direct := 0
		for i := range parties {
			for range each {
				name := fmt.Sprint("t-", i)
				if !f.hold(name, wire.AuditEntry{Who: name, Role: "viewer", Remote: name, Action: "POST /x", Status: 403}) {
					direct++
				}
			}
			if len(f.held) > refusedKinds+1 || len(f.buckets.full) > refusedParties {
				t.Fatalf("%d kinds and %d buckets are kept", len(f.held), len(f.buckets.full))
			}
		}
		_, _ = f.flush(false)
		if direct+counted(rows) != parties*each || len(rows) != refusedKinds+1 {
			t.Errorf("%d at once and %d in %d rows of %d", direct, counted(rows), len(rows), parties*each)
		}
	})
}

// TestUnwrittenRowsAreBounded: while the store is down the objects of writes are kept up to a bound; then they are
// counted together, and none is left out.
func TestUnwrittenRowsAreBounded(t *testing.T) {
	var rows []wire.AuditEntry
	f := &refused{write: func(e wire.AuditEntry) error { rows = append(rows, e); return nil }}
	const objects = 3 * refusedKinds
	for i := range objects {
		e := wire.AuditEntry{Who: "ann", Role: "operator", Remote: "r", Action: "POST /x/{id}", Object: fmt.Sprint(i), Status: 503}
		for range 2 {
			if !f.keep("ann", e) || len(f.held) > refusedKinds {
				t.Fatalf("%d kinds are kept", len(f.held))
			}
		}
	}
	_, _ = f.flush(false)
	named, several := 0, 0
	for _, e := range rows {
		switch {
		case e.Object != "" && e.Count == 2 && e.Who == "ann":
			named++
		case e.Object == "" && e.Who == "ann":
			several += e.Count
		default:
			t.Errorf("%+v", e)
		}
	}
	if named != refusedKinds/2 || several != 2*(objects-named) || len(rows) != named+1 {
		t.Errorf("%d have their object, %d requests are counted without, in %d rows", named, several, len(rows))
	}
}

// TestAuditNamesTasks: an enqueue names the first task and how many.
func TestAuditNamesTasks(t *testing.T) {
	b := newBackend()
	h := b.api(Options{})
	ask(t, h, "POST", "/api/v1/pools/mail/tasks", `[{},{},{}]`)
	ask(t, h, "POST", "/api/v1/pools/mail/tasks", `{}`)
	ask(t, h, "POST", "/api/v1/tasks/task-2/retry", "")
	ask(t, h, "POST", "/api/v1/jobs/report/suspend", "")
	var got []string
	for _, e := range b.audit {
		got = append(got, fmt.Sprint(e.TaskID, " ", e.Tasks))
	}
	if want := "new-0 3,new-4 1,task-2 1, 0"; strings.Join(got, ",") != want {
		t.Errorf("%s, want %s", strings.Join(got, ","), want)
	}
}

// TestTimersEnd: after the last flush no timer is active.
func TestTimersEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 1000 {
			written := 0
			f := &refused{write: func(wire.AuditEntry) error { written++; return nil }}
			for range refusedBurst + 1 {
				f.hold("p", wire.AuditEntry{})
			}
			time.Sleep(refusedHold) // the timer fires in this moment, too
			_, err := f.close()
			f.writing.Lock() // what has not ended waits for it
			for range 100 {
				runtime.Gosched()
			}
			stack := make([]byte, 1<<16)
			all := string(stack[:runtime.Stack(stack, true)])
			f.writing.Unlock()
			if err != nil || written != 1 || strings.Contains(all, "(*refused).flush(") {
				t.Fatalf("%d rows, %v, under way:\n%s", written, err, all)
			}
		}
	})
}
