package judge

import (
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

const (
	pausedByFailures = "pause_on" // who has paused a pool for that
	// unseen is how long after a pause was written a claim may begin that does not see it, as it is not committed yet.
	unseen = 2 * time.Second
)

// pauses is the part of I3 about paused pools: nothing starts in one; and a pool with pause_on is paused when so many of its last attempts
// have failed, once, and at no other time. The ends of its attempts are recorded one transaction after the other, and the audit has the
// transactions in their order: each writes the pool's row first, unless that is paused, and then the ends that it is for. Who resumes a pool,
// paused or not, has counting begin anew.
//
// What starts is judged by the answers of clients that have paused the pool, exactly: a claim reads the time before the pool's row. By the
// audit alone, as after a pause by pause_on, a claim may begin while it is written: for 2 s, and for 8 s more where the store is far or slow.
func (t *trial) pauses() {
	t.startsInPauses()
	pools := map[string]*pausing{}
	of := map[string]string{}      // pools of tasks
	requeued := map[string]int64{} // where tasks became pending again
	for name, p := range t.pools {
		pools[name] = &pausing{Pool: p}
	}
	for _, c := range t.h.Audit {
		r := changed(c)
		switch c.Table {
		case "tasks":
			of[r.ID] = r.Pool
			if p := pools[r.Pool]; p != nil && c.After == nil {
				p.recording.leaves(r.ID)
			}
			if c.Before != nil && c.Before.State == running && c.After != nil && c.After.State != running {
				requeued[r.ID] = c.Seq
			}
			if p := pools[r.Pool]; p != nil && p.paused && starting(c) && t.sameClock(c.Seq) {
				until := p.since.Add(unseen + t.run.Slack)
				if t.excused(p.since, p.since, "", history.StoreFar, history.StoreSlow) {
					until = until.Add(farOff)
				}
				if at := dbTime(r.StartedAt); at.After(until) {
					t.violate(Slots, "pool "+r.Pool, at, "task %s started %v after the pool was paused", r.ID, ms(at.Sub(p.since)))
				}
			}
		case "pools":
			p := pools[r.Pool]
			if p == nil {
				continue
			}
			t.settled(p)
			p.recording = recording{}
			was, is := c.Before != nil && c.Before.Paused == 1, c.After != nil && c.After.Paused == 1
			switch {
			case was == is && !is && c.Before != nil && c.Before.Window != "" && c.After.Window == "":
				p.ends = nil
				if at := dbTime(c.At); t.sameClock(c.Seq) && !t.calls("resume", "ok").may(r.Pool, at, true) && !t.calls("resume", "unknown").may(r.Pool, at, true) {
					t.violate(Slots, "pool "+r.Pool, at, "counting began anew, and no client has resumed it")
				}
				continue
			case was == is:
				continue
			}
			p.paused, p.since = is, dbTime(c.At)
			p.failed = is && r.By == pausedByFailures
			if !p.failed {
				p.ends = nil // counting begins anew
			}
		case "done", "attempts":
			p := pools[of[rowID(*r)]]
			if p == nil || p.PauseOf == 0 || c.Before != nil || r.State != "succeeded" && r.State != "failed" || p.paused && !p.failed {
				continue
			}
			if id := rowID(*r); p.failed && p.recording.next(c, id, requeued[id]) {
				t.settled(p)
				continue // the pool was paused by the one before
			}
			p.ends, p.at = append(p.ends, r.State == "failed"), dbTime(c.At)
			p.last++
		}
	}
	for _, p := range pools {
		t.settled(p)
	}
}

// startsInPauses finds what starts in a pool between the answer to a client that has paused it and the next call that resumes it.
func (t *trial) startsInPauses() {
	paused := map[string][]stay{}
	for _, a := range t.h.Asks {
		if a.What != "pause" || a.Answer != "ok" || t.pools[a.Target].Name == "" {
			continue
		}
		s := stay{a.Returned, t.run.Ended}
		for _, r := range t.h.Asks {
			switch {
			case r.What != "resume" || r.Target != a.Target || r.Answer == "refused":
			case !r.Called.Before(a.Called):
				s.to = minTime(s.to, r.Called)
			case r.Answer != "ok" && t.effective(r).After(a.Called): // it may come yet
				s.to = s.from
			}
		}
		paused[a.Target] = append(paused[a.Target], s)
	}
	for _, c := range t.h.Audit {
		if !starting(c) || !t.sameClock(c.Seq) {
			continue
		}
		began := dbTime(c.After.StartedAt)
		for _, s := range paused[c.After.Pool] {
			if began.After(s.from.Add(clockError)) && dbTime(c.At).Before(s.to.Add(-clockError)) {
				t.violate(Slots, "pool "+c.After.Pool, began, "task %s started %v after a client was told that the pool is paused", c.After.ID, ms(began.Sub(s.from)))
			}
		}
	}
}

// ofPools counts what there is to judge of pools that fail, and of tasks that expire.
func (t *trial) ofPools() []figure {
	paused, ended := 0, 0
	pauses, may := false, false
	for _, p := range t.run.Pools {
		pauses = pauses || p.PauseOf > 0
	}
	for _, c := range t.h.Audit {
		switch {
		case c.Table == "pools" && c.After != nil && c.After.Paused == 1 && c.After.By == pausedByFailures && (c.Before == nil || c.Before.Paused != 1):
			paused++
		case c.Table == "tasks" && c.Before == nil && c.After.ExpiresAt > 0:
			may = true
		case c.Table == "done" && c.Before == nil && c.After != nil && c.After.Code == expired:
			ended++
		}
	}
	var all []figure
	if pauses && t.unhurried() {
		all = append(all, figure{"pauses of a pool that fails", paused, t.each(often)})
	}
	if may && t.run.Quiesced.Sub(t.run.Began) >= often && t.unhurried() {
		all = append(all, figure{"tasks that expired", ended, t.each(often)})
	}
	return all
}

// pausing is a pool while the audit is read.
type pausing struct {
	history.Pool
	paused bool
	since  time.Time
	failed bool      // it was paused as attempts failed, and the ends of that transaction are being read
	ends   []bool    // of attempts since counting began: which failed
	at     time.Time // when the last ones were recorded
	last   int       // how many they are

	recording // of the last ones
}

// failures is how many of the last n ends are.
func (p *pausing) failures(n int) (sum int) {
	for _, bad := range p.ends[max(0, len(p.ends)-n):] {
		if bad {
			sum++
		}
	}
	return sum
}

// settled judges the ends of one transaction, when the next one is read.
func (t *trial) settled(p *pausing) {
	if p.PauseOf == 0 || p.last == 0 {
		return
	}
	threshold := (p.PauseOf*p.PauseFailures + 99) / 100
	switch {
	case p.failed:
		if n := p.failures(p.PauseOf - 1 + p.last); n < threshold {
			t.violate(Slots, "pool "+p.Name, p.since, "paused after %d failures, and %d of the last %d are needed", n, threshold, p.PauseOf)
		}
		p.failed, p.ends = false, nil
	case !p.paused:
		if n := p.failures(p.PauseOf); n >= threshold {
			t.violate(Slots, "pool "+p.Name, p.at, "not paused, and %d of the last %d attempts failed: %d are enough", n, min(len(p.ends), p.PauseOf), threshold)
		}
	}
	p.last = 0
}
