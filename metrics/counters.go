package metrics

import (
	"errors"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
	"github.com/lockstep-scheduler/lockstep/locks"
)

// counters implements scheduler.Observer and locks.Observer.
type counters struct {
	counts map[*family]*prometheus.CounterVec
	times  map[*family]*prometheus.HistogramVec
	levels map[*family]*prometheus.GaugeVec
}

func newCounters() *counters {
	c := &counters{map[*family]*prometheus.CounterVec{}, map[*family]*prometheus.HistogramVec{}, map[*family]*prometheus.GaugeVec{}}
	for _, f := range slices.Concat(happens, asked) {
		switch f.kind {
		case histogram:
			o := prometheus.HistogramOpts{Name: f.full(), Help: f.help, Buckets: f.buckets}
			c.times[f] = prometheus.NewHistogramVec(o, f.labels)
		case gauge:
			c.levels[f] = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: f.full(), Help: f.help}, f.labels)
		default:
			c.counts[f] = prometheus.NewCounterVec(prometheus.CounterOpts{Name: f.full(), Help: f.help}, f.labels)
		}
	}
	// Prometheus' increase() ignores the first value of a counter, so it must be 0.
	c.count(resultsFenced)
	c.count(resultsLate)
	for _, cause := range []jobs.Cause{jobs.CauseSchedule, jobs.CauseCatchUp, jobs.CauseManual, jobs.CauseBackfill} {
		c.count(triggersDecided, string(cause), "run")
		c.count(triggersDecided, string(cause), string(jobs.Skipped))
	}
	c.count(triggersDecided, string(jobs.CauseCatchUp), string(jobs.Missed))
	for _, outcome := range []jobs.Outcome{jobs.Skipped, jobs.Missed, jobs.Lost} {
		c.count(triggersEnded, string(outcome), "")
	}
	for _, result := range []jobs.State{jobs.StateSucceeded, jobs.StateFailed, jobs.StateCancelled} {
		c.count(triggersEnded, string(jobs.Ran), string(result))
	}
	return c
}

// snoozed is the result of an attempt that its handler snoozed.
const snoozed = "snoozed"

// begin creates the counters of a pool at 0.
func (c *counters) begin(pool string) {
	for _, end := range []jobs.State{jobs.StateSucceeded, jobs.StateFailed, jobs.StateCancelled, jobs.StateLost} {
		c.count(attempts, pool, string(end))
		c.count(tasksEnded, pool, string(end))
	}
	c.count(attempts, pool, snoozed)
	c.count(retries, pool, string(jobs.StateFailed))
	c.count(retries, pool, string(jobs.StateLost))
	c.count(tasksReaped, pool)
	c.count(tasksQuarantined, pool)
	c.count(handedBack, pool)
	c.count(tasksClaimed, pool)
	c.duration(startLag, pool)
	c.duration(attemptDuration, pool)
}

func (c *counters) count(f *family, labels ...string) prometheus.Counter {
	return c.counts[f].WithLabelValues(labels...)
}

func (c *counters) duration(f *family, labels ...string) prometheus.Observer {
	return c.times[f].WithLabelValues(labels...)
}

// vectors calls do with each of them.
func (c *counters) vectors(do func(prometheus.Collector)) {
	for _, vec := range c.counts {
		do(vec)
	}
	for _, vec := range c.times {
		do(vec)
	}
	for _, vec := range c.levels {
		do(vec)
	}
}

// Decided counts due times; one row may have many.
func (c *counters) Decided(t jobs.Trigger) {
	decision := "run"
	if t.Outcome != "" {
		decision = string(t.Outcome)
		c.count(triggersEnded, string(t.Outcome), "").Add(float64(t.Count))
	}
	c.count(triggersDecided, string(t.Cause), decision).Add(float64(t.Count))
}

// Claimed counts a claim.
func (c *counters) Claimed(try jobs.ClaimTry) {
	c.count(tasksClaimed, try.Pool).Add(float64(try.Tasks))
	c.duration(claimDuration, try.LockBackend, try.Result).Observe(try.Took.Seconds())
}

// Started counts an attempt that begins.
func (c *counters) Started(t jobs.Task, lag time.Duration) {
	c.duration(startLag, t.Pool).Observe(lag.Seconds())
}

// Ended counts an attempt whose handler returned.
func (c *counters) Ended(t jobs.Task, _ jobs.State, took time.Duration) {
	c.duration(attemptDuration, t.Pool).Observe(took.Seconds())
}

// Recorded counts the recorded end of an attempt.
func (c *counters) Recorded(t jobs.Task, end jobs.State, late bool) {
	if late {
		c.count(resultsLate).Inc()
	}
	c.ended(t, end)
}

// HandedBack counts a task that did not start.
func (c *counters) HandedBack(t jobs.Task) { c.count(handedBack, t.Pool).Inc() }

// Fenced counts a result that the store refused.
func (c *counters) Fenced(jobs.Task, jobs.State) { c.count(resultsFenced).Inc() }

// Reaped counts a task of an expired owner.
func (c *counters) Reaped(t jobs.Task, _ string) {
	c.count(tasksReaped, t.Pool).Inc()
	if t.ReasonCode == reason.Quarantined {
		c.count(tasksQuarantined, t.Pool).Inc()
	}
	c.ended(t, jobs.StateLost)
}

// ended counts an attempt with this end, and the state of its task afterwards, if the store returns one.
func (c *counters) ended(t jobs.Task, end jobs.State) {
	result := string(end)
	if end == jobs.StatePending {
		result = snoozed
	}
	c.count(attempts, t.Pool, result).Inc()
	switch now := t.State; {
	case now == jobs.StatePending && result == snoozed: // no retry
	case now == jobs.StatePending:
		c.count(retries, t.Pool, string(end)).Inc()
	case now != "" && now.Ended():
		c.count(tasksEnded, t.Pool, string(now)).Inc()
		if t.Job == "" || t.RetryOf != "" { // a retry by hand is no trigger
			return
		}
		outcome, result := jobs.Ran, string(now)
		if now == jobs.StateLost {
			outcome, result = jobs.Lost, ""
		}
		c.count(triggersEnded, string(outcome), result).Inc()
	}
}

// Asked counts a call to acquire locks.
func (c *counters) Asked(backend string, a locks.Asked) {
	result := "granted"
	for _, part := range []struct {
		result string
		keys   int
	}{{"unavailable", a.Unavailable}, {"unknown", a.Unknown}, {"busy", a.Busy}, {"queued", a.Queued}, {"granted", a.Granted}} {
		if part.keys > 0 {
			c.count(lockKeys, backend, part.result).Add(float64(part.keys))
			result = part.result
		}
	}
	c.duration(lockDuration, backend, result).Observe(a.Took.Seconds())
}

// Renewed counts a renewal of the lock session.
func (c *counters) Renewed(backend string, took time.Duration, err error) {
	result := "renewed"
	switch {
	case errors.Is(err, locks.ErrLost):
		result = "lost"
	case err != nil:
		result = "failed"
	}
	c.duration(lockRenewal, backend, result).Observe(took.Seconds())
}

// Lost counts locks that ended before they were released.
func (c *counters) Lost(backend string, keys int, cause error) {
	reason := "forced"
	if !errors.Is(cause, locks.ErrForced) {
		reason = "lost"
		c.count(lockSessionsLost, backend).Inc()
	}
	c.count(lockLost, backend, reason).Add(float64(keys))
}

// Waiting counts a key that a call waits for.
func (c *counters) Waiting(backend string) { c.levels[lockWaiting].WithLabelValues(backend).Inc() }

// Waited counts the end of a wait.
func (c *counters) Waited(backend string, took time.Duration, got bool) {
	c.levels[lockWaiting].WithLabelValues(backend).Dec()
	result := "given_up"
	if got {
		result = "granted"
	}
	c.duration(lockWait, backend, result).Observe(took.Seconds())
}

// Held counts a key that is held.
func (c *counters) Held(backend string) { c.levels[lockHeld].WithLabelValues(backend).Inc() }

// Freed counts a key that is not held any more.
func (c *counters) Freed(backend string, held time.Duration) {
	c.levels[lockHeld].WithLabelValues(backend).Dec()
	c.duration(lockHold, backend).Observe(held.Seconds())
}
