package judge

import (
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// readBeats reads the heartbeats of each replica.
func (t *trial) readBeats() {
	for _, c := range t.h.Audit {
		if c.Table == "sessions" && c.After != nil && t.sameClock(c.Seq) && (c.Before == nil || c.After.Beat != c.Before.Beat) {
			t.beats[c.After.Replica] = append(t.beats[c.After.Replica], dbTime(c.At))
		}
	}
	for _, all := range t.beats {
		slices.SortFunc(all, time.Time.Compare)
	}
}

// silent reports whether a replica had no heartbeat for half a session ttl shortly before at: then it had to
// stop its work, or the others might expire it.
func (t *trial) silent(replica string, at time.Time) bool {
	all := t.beats[replica]
	from := at.Add(-t.run.SessionTTL - reapTime - t.run.Slack)
	first, _ := slices.BinarySearchFunc(all, from, time.Time.Compare)
	longest, last := time.Duration(0), from
	if first > 0 {
		last = all[first-1]
	}
	for _, beat := range all[first:] {
		if beat = minTime(beat, at); beat.After(last) {
			longest, last = max(longest, beat.Sub(last)), beat
		}
	}
	return max(longest, at.Sub(last)) >= t.run.SessionTTL/2
}

// starved reports whether a replica, on a machine that is known to be busy (Run.Slack), was silent or not ready
// shortly before at without a fault: its heartbeat may have been answered too late. Its lateness then is due to
// the machine.
func (t *trial) starved(replica string, at time.Time) bool {
	if t.run.Slack == 0 {
		return false
	}
	from := at.Add(-t.run.SessionTTL - reapTime - t.run.Slack)
	return t.silent(replica, at) || slices.ContainsFunc(t.h.Probes, func(p history.Probe) bool {
		return p.Replica == replica && !p.Ready && p.At.After(from) && p.At.Before(at)
	})
}

// unready is for how long between two moments no replica at all was ready, on a machine that is known to be busy (Run.Slack): then
// none could reap. Pauses between probes do not count.
func (t *trial) unready(from, to time.Time) (sum time.Duration) {
	if t.run.Slack == 0 {
		return 0
	}
	var ready []time.Time
	for _, p := range t.h.Probes {
		if p.Ready && p.At.After(from) && p.At.Before(to) {
			ready = append(ready, p.At)
		}
	}
	slices.SortFunc(ready, time.Time.Compare)
	for last := from; ; ready = ready[1:] {
		next := to
		if len(ready) > 0 {
			next = ready[0]
		}
		if gap := next.Sub(last); gap > time.Second {
			sum += gap
		}
		if last = next; len(ready) == 0 {
			return sum
		}
	}
}
