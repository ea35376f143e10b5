package judge

import (
	"maps"
	"slices"
	"time"
)

// notVacuous is I13: the run has seen as many triggers, acknowledged tasks and faults as it had to;
// each fault of it was seen to strike and was healed; each kind of operation worked at least once;
// and the ledger of handlers, the audit and the probes have something to say. An audit that is damaged,
// see newTrial and readClaims, is judged as far as it goes.
//
// No excuses.
func (t *trial) notVacuous() {
	vacuous := func(subject, format string, args ...any) {
		t.violate(NotVacuous, subject, time.Time{}, "vacuous: "+format, args...)
	}
	faults := 0
	for _, w := range t.h.Windows {
		if w.Applied {
			faults++
		} else {
			t.violate(NotVacuous, windowName(w), w.Began, "vacuous: not applied: %s", w.Evidence+w.Err)
		}
		if w.Applied && w.Err != "" {
			t.violate(NotVacuous, windowName(w), w.Began, "vacuous: %s", w.Err)
		}
	}
	least := t.run.Minimum
	for _, m := range []struct {
		what      string
		have, min int
	}{
		{"triggers", len(t.h.Final.Triggers), least.Triggers},
		{"tasks", t.report.Tasks, least.Tasks},
		{"faults", faults, least.Faults},
		{"starts of attempts", t.report.Starts, min(1, least.Triggers+least.Tasks)},
		{"changes in the audit", len(t.h.Audit), min(1, least.Triggers+least.Tasks)},
		{"probes", len(t.h.Probes), min(1, least.Triggers+least.Tasks)},
	} {
		if m.have < m.min {
			vacuous("run", "%d %s, and %d are the least", m.have, m.what, m.min)
		}
	}
	worked := map[string]bool{}
	for _, a := range t.h.Asks {
		worked[a.What] = worked[a.What] || a.Answer == "ok"
	}
	for _, what := range slices.Sorted(maps.Keys(worked)) {
		if !worked[what] {
			vacuous(what, "it never worked")
		}
	}
}
