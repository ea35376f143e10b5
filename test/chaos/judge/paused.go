package judge

import "github.com/lockstep-scheduler/lockstep/test/chaos/history"

// everythingPaused is the part of I3 about the pause of everything: from the answer that says so until the call that resumes it no due time is
// decided and no attempt starts. A run by hand waits then, and an edit writes what it has overtaken.
func (t *trial) everythingPaused() {
	for _, w := range t.h.Windows {
		if !w.Applied || !has(w, history.Paused) || w.Struck.IsZero() {
			continue
		}
		from, to := w.Struck.Add(clockError), w.Healing.Add(-clockError)
		for _, c := range t.h.Audit {
			if !t.sameClock(c.Seq) || c.After == nil || !dbTime(c.At).Before(to) {
				continue
			}
			switch r := *c.After; {
			case starting(c) && dbTime(r.StartedAt).After(from):
				t.violate(Slots, "task "+r.ID, dbTime(r.StartedAt), "started %v after everything was paused", ms(dbTime(r.StartedAt).Sub(w.Struck)))
			case c.Table == "triggers" && c.Before == nil && r.Seq == 0 && !edited(r) && dbTime(r.DecidedAt).After(from):
				t.violate(Slots, subject(r), dbTime(r.DecidedAt), "decided %v after everything was paused", ms(dbTime(r.DecidedAt).Sub(w.Struck)))
			}
		}
	}
}
