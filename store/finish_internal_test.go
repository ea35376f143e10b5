package store

import (
	"slices"
	"testing"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// The fingerprints of what fails are there before the transaction begins, each of its own result, and a move needs no other; what is
// not known before is made in the transaction.
func TestFingerprintsBeforeTheTransaction(t *testing.T) {
	failed := func(id, failure string) ledger.Result {
		return ledger.Result{TaskID: id, Verdict: ledger.Ended, State: jobs.StateFailed, Error: failure, Task: &jobs.Task{ID: id, Kind: "mail"}}
	}
	unread, other, again, succeeded := failed("b", "no task"), failed("c", "another task"), failed("d", "again"), failed("a", "")
	unread.Task, other.Task.ID, again.Verdict, succeeded.State = nil, "x", ledger.Again, jobs.StateSucceeded
	w := &finish{results: []ledger.Result{succeeded, failed("a", "late 7"), unread, other, again}}
	w.fingerprintAll()
	want := jobs.Fingerprint(jobs.Task{Kind: "mail", State: jobs.StateFailed, Error: "late 7"})
	if !slices.Equal(w.prints, []string{"", want, "", "", ""}) {
		t.Errorf("%q, want one, %s", w.prints, want)
	}
	for i, r := range w.results {
		row := openTask{Task: jobs.Task{ID: r.TaskID, Kind: "mail"}}
		m := w.move(row, i)
		if made := jobs.Fingerprint(jobs.Task{Kind: "mail", State: r.State, Error: r.Error}); m.print != w.prints[i] || m.fingerprint() != made {
			t.Errorf("result %d: %q, made before: %q, want %q", i, m.fingerprint(), m.print, made)
		}
	}
	none := &finish{results: []ledger.Result{succeeded}}
	if none.fingerprintAll(); none.prints != nil || none.move(openTask{}, 0).print != "" {
		t.Error("room is made for fingerprints where nothing fails")
	}
	row := openTask{Task: jobs.Task{ID: "a", Kind: "mail"}, cancel: "by alice"}
	w.results[1].Verdict = ledger.Again
	if m := w.move(row, 1); m.end != jobs.StateCancelled || m.fingerprint() != "" {
		t.Errorf("a cancelled task has the fingerprint %q", m.fingerprint())
	}
}
