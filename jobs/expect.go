package jobs

import "time"

// Expect is by when each run of a job is to have started, and ended, counted from when its due time starts: after the jitter, and after a calendar has
// put it off. A run by hand counts from when it was asked for. A run that
// has not is told of by [EventLate], once for each of the two; it goes on as it would otherwise. Zero: nothing is expected.
//
// What is counted is the first start of the run, and its last end, retries included. A due time that is skipped or missed is expected to do nothing.
type Expect struct {
	StartWithin  time.Duration
	FinishWithin time.Duration // more than StartWithin
}

func (p *problems) expect(path string, e Expect) {
	p.duration(path+".start_within", e.StartWithin)
	p.duration(path+".finish_within", e.FinishWithin)
	for _, within := range []struct {
		key string
		d   time.Duration
	}{{"start_within", e.StartWithin}, {"finish_within", e.FinishWithin}} {
		if within.d > 0 && within.d < time.Second {
			p.add(path+"."+within.key, "%s is less than a second, which is how exactly it is looked at; write 1s or more", within.d)
		}
	}
	if e.FinishWithin > 0 && e.FinishWithin <= e.StartWithin {
		p.add(path+".finish_within", "%s is no more than start_within, %s, so a run that starts in time could not end in time", e.FinishWithin, e.StartWithin)
	}
}
