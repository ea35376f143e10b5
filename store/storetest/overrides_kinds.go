package storetest

import (
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// A limit of a kind is added, raised, lowered and removed while tasks wait for it; other kinds have none.
func overrideKind(t *testing.T, b *Bench) {
	s := newScene(t, b)
	k := s.ofKinds("mail", "mail", "sms")
	s.unaware("without limits", k...)
	k = append(k, s.ofKinds("mail", "mail", "mail", "mail", "sms", "")...)
	s.set("it is added", perKindOf("mail", fields{MaxRunning: new(2)}))
	s.unaware("it is added", k[7], k[8])
	s.waitsFor(k[3], reason.WaitsForKind, "as many tasks of kind mail run as may at once: 2")
	s.idle("it is full")
	s.ends(k[0])
	s.starts("one has ended", k[3])
	s.idle("two run")
	s.set("it is raised", perKindOf("mail", fields{MaxRunning: new(3)}))
	s.starts("it is raised", k[4])
	s.override("work", perKindOf("mail", fields{MaxRunning: new(1)}))
	s.ends(k[1], k[3])
	s.starts("one runs")
	s.set("a rate instead", perKindOf("mail", fields{MaxRunning: new(0), Rate: &jobs.Rate{Count: 1, Per: time.Hour}}))
	s.starts("a rate instead", k[5])
	s.waitsFor(k[6], reason.WaitsForKind, "kind mail")
	s.set("it is removed", &wire.PoolLimits{Reset: []string{"per_kind.mail"}})
	s.unaware("it is removed", k[6])
	s.settled("it is removed")
}

// The end of a task whose owner does not know that its kind has got a limit lets the next one start at once.
func overrideKindUntold(t *testing.T, b *Bench) {
	s := newScene(t, b)
	k := s.ofKinds("mail", "mail")
	got := s.claimUnaware("work", 1)
	s.override("work", perKindOf("mail", fields{MaxRunning: new(1)}))
	other := s.second("two")
	other.starts("it is full")
	other.idle("it is full")
	s.idle("it is full") // the poll of the owner's replica, which may be worth another look 20 ms after the claim
	end := result(got.Tasks[0], ledger.Ended, jobs.StateSucceeded)
	end.KindLimited = false
	s.finish(end)
	s.ready("it has ended", "work")
	other.freed("it has ended", k[1])
}

// Beside the limits of a kind in the file those that are set hold, field by field, also of other kinds.
func overrideKindOfFile(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.perKind(perKind{"mail": {MaxRunning: 1}}, jobs.KeyLimits{}, nil)
	k := s.ofKinds("mail", "mail", "mail", "sms", "sms")
	s.starts("that of the file", k[0], k[3], k[4])
	s.override("work", perKindOf("sms", fields{MaxRunning: new(1)}))
	more := s.ofKinds("sms")
	s.starts("both are full")
	s.waitsFor(more[0], reason.WaitsForKind, "kind sms")
	s.set("more of the kind", perKindOf("mail", fields{MaxRunning: new(2)}))
	s.starts("more of the kind", k[1])
	s.set("none of the kind", perKindOf("mail", fields{MaxRunning: new(0)}))
	s.starts("none of the kind", k[2])
	k = s.ofKinds("mail", "mail")
	s.starts("none of the kind", k...)
	s.override("work", nil)
	s.starts("that of the file, which has none for the other kind", more...)
}
