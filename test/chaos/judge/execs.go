package judge

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// What docs/locks.md says of the exit codes of "locks exec".
const (
	execOK   = 0  // its command has ended so
	execDown = 1  // the lock service grants nothing
	execBusy = 75 // another one holds the key, or has its turn first
	execLost = 76 // the lock was lost, and the command was ended
)

// execs is the part of I12 about "locks exec": it ends as it is documented, and without a panic or a data race in its log.
// The commands always succeed, so that 0 says that one has ended.
//
// 1 is excused while the lock service is away or slow, has lost what it knew, or has a wrong clock; where the locks are in
// the store, while that is so; where they are rows, while another replica's connection to them is slow, since its transactions
// hold the row that tokens come from; for one that was frozen as it waited, whose session ended; and beside a replica that a busy
// machine starves, since its own calls may then be answered too late. Nothing else is.
func (t *trial) execs() {
	completed := map[string]bool{}
	for _, l := range t.h.Locked {
		completed[l.Exec] = completed[l.Exec] || l.What == history.End
	}
	logs := map[string]bool{}
	for _, e := range t.h.Execs {
		t.report.Execs[execEnd(e)]++
		logs[e.Log] = true
		wrong := func(why string) {
			t.violate(Clean, execTask+e.Name, e.Ended, "ended with %d, %s; log %s", e.Exit, why, e.Log)
		}
		switch {
		case e.Exit == execOK && !completed[e.Name]:
			wrong("and its command had not ended")
		case e.Exit == execDown && !t.nothingGranted(e):
			wrong("which says that the lock service grants nothing")
		case e.How != history.ExecKilled && !slices.Contains([]int{execOK, execDown, execBusy, execLost}, e.Exit):
			wrong("which nothing explains")
		}
	}
	for log := range logs {
		if log != "" && t.run.Directory != "" {
			t.log(log)
		}
	}
}

// execEnd is how the report counts a run.
func execEnd(e history.Exec) string {
	if e.How == history.ExecEnded {
		return fmt.Sprint("exit ", e.Exit)
	}
	return e.How
}

// nothingGranted reports whether the lock service may not have granted anything to it.
func (t *trial) nothingGranted(e history.Exec) bool {
	switch {
	case e.How == history.ExecFrozen, t.starved(e.Beside, e.Ended), t.excused(e.Began, e.Ended, e.Beside, t.lockFaults()...):
		return true
	case strings.HasSuffix(t.run.Cell, "+lease"):
		return t.excused(e.Began, e.Ended, "", history.LockDown, history.LockSlow)
	}
	return t.run.Cell == "sqlite+sqlite" && t.excused(e.Began, e.Ended, "", history.StoreHeld, history.ReplicaFrozen) // with the file's lock
}

// waitedInVain is the part of I15 about "locks exec".
func (t *trial) waitedInVain() {
	worked := map[string][]time.Time{} // by key
	for _, e := range t.h.Effects {
		if key := t.lockOf(e); key != "" {
			worked[key] = append(worked[key], e.At)
		}
	}
	for _, l := range t.h.Locked {
		key := strings.TrimPrefix(l.Key, userKeys)
		worked[key] = append(worked[key], l.At)
	}
	for key := range worked {
		slices.SortFunc(worked[key], time.Time.Compare)
	}
	most := t.run.LockTTL + 2*time.Second + t.run.Slack
	for _, e := range t.h.Execs {
		if e.Exit != execBusy || e.How != history.ExecEnded || e.Wait < most {
			continue
		}
		since := e.Ended.Add(-most)
		next, _ := slices.BinarySearchFunc(worked[e.Key], since, time.Time.Compare)
		if next < len(worked[e.Key]) && worked[e.Key][next].Before(e.Ended) ||
			t.excused(since, e.Ended, "", history.LockDown, history.LockGone, history.LockSlow, history.LockClock,
				history.StoreDown, history.StoreSlow, history.StoreFar, history.StoreHeld, history.StoreClock) {
			continue
		}
		t.violate(InTurn, "lock "+e.Key, since, "nobody worked under it for %v while %s%s waited", ms(most), execTask, e.Name)
	}
}

// locked counts the runs of "locks exec".
func (t *trial) locked() []figure {
	if t.run.Format < 3 {
		return nil // it has none
	}
	succeeded, struck := 0, map[string]bool{}
	for _, e := range t.h.Execs {
		if e.How == history.ExecEnded && e.Exit == execOK {
			succeeded++
		}
	}
	for _, l := range t.h.Locked {
		if e := t.execsBy[l.Exec]; !e.Struck.IsZero() && l.At.Before(e.Struck) {
			struck[l.Exec] = true
		}
	}
	all := []figure{{"runs of locks exec that succeeded", succeeded, t.each(30 * time.Second)}}
	if t.run.Quiesced.Sub(t.run.Began) >= often {
		all = append(all, figure{"runs of locks exec that were killed or frozen while their command worked", len(struck), 1})
	}
	return all
}
