package api

import (
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
)

// TestOverviewOfWorkers: at most so many workers are in the overview, sorted by id: those that are late or dead before those with tasks, and
// these before the others. When one was heard of is news only if it is late.
func TestOverviewOfWorkers(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)
	worker := func(i, running int, age time.Duration, dead bool) ledger.WorkerStatus {
		return ledger.WorkerStatus{Peer: ledger.Peer{
			Member: ledger.Member{Replica: fmt.Sprintf("w-%03d", i), Pool: "mail", TTL: 10 * time.Second}, Dead: dead, SeenAt: now.Add(-age),
		}, Running: running}
	}
	var all []ledger.WorkerStatus
	for i := range 98 {
		all = append(all, worker(i, 1, time.Second, false))
	}
	for i := 98; i < 200; i++ {
		all = append(all, worker(i, 0, time.Second, false))
	}
	all = append(all, worker(200, 0, 12*time.Second, false), worker(201, 0, time.Minute, true))
	views := overviewWorkers(all, now)
	if len(views) != overviewParts || views[97].ID != "w-097" || views[98].ID != "w-200" || views[99].ID != "w-201" {
		t.Fatalf("%d workers, the last ones %+v", len(views), views[97:])
	}
	for i, w := range views {
		if late := i >= 98; w.SeenAt.IsZero() == late || w.State == "dead" != (i == 99) {
			t.Errorf("%d: %+v", i, w)
		}
	}
	if views := overviewWorkers(all[198:], now); len(views) != 4 || views[0].ID != "w-198" {
		t.Errorf("of few: %+v", views)
	}
}

// TestEventsSayTheRole: a stream says what its caller may do.
func TestEventsSayTheRole(t *testing.T) {
	t.Parallel()
	tokens := newTokenSet()
	for role, want := range map[Role]int{Viewer: 200, Operator: 200, Admin: 200, Worker: 403, "": 401} {
		r := httptest.NewRequest("HEAD", "http://localhost/api/v1/events", nil)
		if role != "" {
			with(tokens.secrets[role])(r)
		}
		w := httptest.NewRecorder()
		newBackend().api(Options{Access: tokens}).ServeHTTP(w, r)
		said := string(role)
		if want != 200 {
			said = ""
		}
		if w.Code != want || w.Header().Get("Lockstep-Role") != said {
			t.Errorf("%q: %d, role %q", role, w.Code, w.Header().Get("Lockstep-Role"))
		}
	}
	w := httptest.NewRecorder()
	newBackend().api(Options{}).ServeHTTP(w, httptest.NewRequest("HEAD", "http://localhost/api/v1/events", nil))
	if got := w.Header().Get("Lockstep-Role"); got != "admin" {
		t.Errorf("without access control: %q", got)
	}
}
