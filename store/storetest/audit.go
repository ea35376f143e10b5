package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

var auditCases = []Case{
	{"Audit/Pages", auditPages},
	{"Audit/LongTexts", auditLongTexts},
	{"Audit/Sweep", auditSweep},
}

// Entries come back as they were given, the latest first, whatever the size of the pages; those of
// one moment too.
func auditPages(t *testing.T, b *Bench) {
	var want []string
	for i := range 13 {
		e := wire.AuditEntry{Who: "Ci", Role: "operator", Remote: "2001:db8::1", Action: "POST /jobs/{name}/run", Object: fmt.Sprint("job-", i), Status: 201, TaskID: newID(), Tasks: 3, Count: i * 7}
		must(t, b.SQL().Sides().Audit.AddAudit(t.Context(), e))
		want = append([]string{auditLabel(e)}, want...)
		if i == 0 {
			all, next, err := b.SQL().Sides().Audit.AuditEntries(t.Context(), wire.Page{})
			must(t, err)
			if len(all) != 1 || next != "" || all[0].ID == "" || time.Since(all[0].At).Abs() > time.Minute {
				t.Fatalf("%+v, next %q", all, next)
			}
			e.ID, e.At = all[0].ID, all[0].At
			if diff := cmp.Diff(e, all[0]); diff != "" {
				t.Error(diff)
			}
		}
	}
	b.DB.Exec(t, "UPDATE {audit} SET at=5 WHERE object IN ('job-3', 'job-4', 'job-5', 'job-6')")
	want = slices.Concat(want[:6], want[10:], want[6:10]) // the jobs 12 … 7, 2 … 0, 6 … 3
	for _, limit := range []int{1, 2, 5, 13, 500} {
		var got []string
		p := wire.Page{Limit: limit}
		for {
			page, next, err := b.SQL().Sides().Audit.AuditEntries(t.Context(), p)
			must(t, err)
			for _, e := range page {
				got = append(got, auditLabel(e))
			}
			if p.Cursor != "" && len(page) == 0 {
				t.Errorf("an empty page follows one of %d", limit)
			}
			if p.Cursor = next; next == "" {
				break
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("pages of %d (-want +got):\n%s", limit, diff)
		}
	}
	for _, p := range []wire.Page{{Limit: -1}, {Limit: 501}, {Cursor: "%"}, {Cursor: "YQ"}, {Cursor: "YXVkaXQKeAp5"}} {
		if _, _, err := b.SQL().Sides().Audit.AuditEntries(t.Context(), p); !errors.Is(err, jobs.ErrInvalid) {
			t.Errorf("%+v: %v", p, err)
		}
	}
}

func auditLabel(e wire.AuditEntry) string { return fmt.Sprintf("%s ×%d", e.Object, e.Count) }

// A long text is cut, and the row is always written.
func auditLongTexts(t *testing.T, b *Bench) {
	long := strings.Repeat("ü", 500)
	must(t, b.SQL().Sides().Audit.AddAudit(t.Context(), wire.AuditEntry{Who: long, Role: long, Remote: long, Action: long, Object: long, Status: 403}))
	all, _, err := b.SQL().Sides().Audit.AuditEntries(t.Context(), wire.Page{})
	must(t, err)
	if len(all) != 1 || all[0].Who != strings.Repeat("ü", 64) || all[0].Role != strings.Repeat("ü", 8) || all[0].Object != strings.Repeat("ü", 64) {
		t.Errorf("%+v", all)
	}
	fits := "\xff" + strings.Repeat("x", 127) // from a URL, and no text
	must(t, b.SQL().Sides().Audit.AddAudit(t.Context(), wire.AuditEntry{Object: fits}))
	if all, _, err = b.SQL().Sides().Audit.AuditEntries(t.Context(), wire.Page{}); err != nil || all[0].Object != fits {
		t.Errorf("what just fits is %q, %v", all[0].Object, err)
	}
}

// The audit is kept as long as the ledger.
func auditSweep(t *testing.T, b *Bench) {
	s := newScene(t, b)
	for i := range 5 {
		must(t, b.SQL().Sides().Audit.AddAudit(t.Context(), wire.AuditEntry{Object: fmt.Sprint(i)}))
	}
	b.DB.Exec(t, "UPDATE {audit} SET at=? WHERE object<>'4'", ago(3*time.Hour))
	s.sweep(jobs.Retention{}, 100)
	s.sweep(jobs.Retention{Triggers: 4 * time.Hour}, 100)
	s.wantInt(5, "SELECT COUNT(*) FROM {audit}")
	if !s.sweep(jobs.Retention{Triggers: 2 * time.Hour}, 3) || s.sweep(jobs.Retention{Triggers: 2 * time.Hour}, 3) {
		t.Error("more is wrong")
	}
	s.wantInt(1, "SELECT COUNT(*) FROM {audit}")
	s.wantInt(1, "SELECT COUNT(*) FROM {audit} WHERE object='4'")
}
