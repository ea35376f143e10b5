package metrics

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/ledger"
	"github.com/lockstep-scheduler/lockstep/locks"
)

// counters is what a replica and its locks tell, as they do it: it has the methods of
// scheduler.Metrics and of locks.Metrics.
type counters struct {
	triggersDecided, triggersEnded                                    *prometheus.CounterVec
	attempts, tasksEnded, retries, tasksReaped, handedBack            *prometheus.CounterVec
	fenced, late, tasksClaimed, lockKeys, lockLost, lockSessionsLost  *prometheus.CounterVec
	startLag, attemptDuration, claimDuration, lockDuration, lockRenew *prometheus.HistogramVec
}

func newCounters() *counters {
	c := &counters{
		triggersDecided: triggersDecided.counters(), triggersEnded: triggersEnded.counters(),
		attempts: attempts.counters(), tasksEnded: tasksEnded.counters(), retries: retries.counters(),
		tasksReaped: tasksReaped.counters(), handedBack: handedBack.counters(),
		fenced: fenced.counters(), late: late.counters(),
		tasksClaimed: tasksClaimed.counters(), lockKeys: lockKeys.counters(), lockLost: lockLost.counters(), lockSessionsLost: lockSessionsLost.counters(),
		startLag: startLag.histograms(), attemptDuration: attemptDuration.histograms(),
		claimDuration: claimDuration.histograms(), lockDuration: lockDuration.histograms(), lockRenew: lockRenewal.histograms(),
	}
	// A counter that first appears with 1 has not increased, to those who ask for an increase.
	c.fenced.WithLabelValues()
	c.late.WithLabelValues()
	for _, cause := range []jobs.Cause{jobs.CauseSchedule, jobs.CauseCatchUp, jobs.CauseManual} {
		c.triggersDecided.WithLabelValues(string(cause), "run")
		c.triggersDecided.WithLabelValues(string(cause), string(jobs.Skipped))
	}
	c.triggersDecided.WithLabelValues(string(jobs.CauseCatchUp), string(jobs.Missed))
	for _, outcome := range []jobs.Outcome{jobs.Skipped, jobs.Missed, jobs.Lost} {
		c.triggersEnded.WithLabelValues(string(outcome), "")
	}
	for _, result := range []jobs.State{jobs.StateSucceeded, jobs.StateFailed, jobs.StateCancelled} {
		c.triggersEnded.WithLabelValues(string(jobs.Ran), string(result))
	}
	return c
}

// begin makes the counters of a pool start at nothing.
func (c *counters) begin(pool string) {
	for _, end := range []jobs.State{jobs.StateSucceeded, jobs.StateFailed, jobs.StateCancelled, jobs.StateLost} {
		c.attempts.WithLabelValues(pool, string(end))
		c.tasksEnded.WithLabelValues(pool, string(end))
	}
	c.retries.WithLabelValues(pool, string(jobs.StateFailed))
	c.retries.WithLabelValues(pool, string(jobs.StateLost))
	c.tasksReaped.WithLabelValues(pool)
	c.handedBack.WithLabelValues(pool)
	c.tasksClaimed.WithLabelValues(pool)
	c.startLag.WithLabelValues(pool)
	c.attemptDuration.WithLabelValues(pool)
}

// vectors calls do with each of them.
func (c *counters) vectors(do func(prometheus.Collector)) {
	for _, vec := range []prometheus.Collector{
		c.triggersDecided, c.triggersEnded, c.attempts, c.tasksEnded, c.retries, c.tasksReaped, c.handedBack, c.fenced, c.late,
		c.tasksClaimed, c.lockKeys, c.lockLost, c.lockSessionsLost, c.startLag, c.attemptDuration, c.claimDuration, c.lockDuration, c.lockRenew,
	} {
		do(vec)
	}
}

// Decided counts due times, of which one row may cover many.
func (c *counters) Decided(t jobs.Trigger) {
	decision := "run"
	if t.Outcome != "" {
		decision = string(t.Outcome)
		c.triggersEnded.WithLabelValues(string(t.Outcome), "").Add(float64(t.Count))
	}
	c.triggersDecided.WithLabelValues(string(t.Cause), decision).Add(float64(t.Count))
}

// Claimed counts a try to take tasks.
func (c *counters) Claimed(try ledger.ClaimTry) {
	c.tasksClaimed.WithLabelValues(try.Pool).Add(float64(try.Tasks))
	c.claimDuration.WithLabelValues(try.LockBackend, string(try.Result)).Observe(try.Took.Seconds())
}

// Started counts an attempt that begins.
func (c *counters) Started(t jobs.Task, lag time.Duration) {
	c.startLag.WithLabelValues(t.Pool).Observe(lag.Seconds())
}

// Ended counts an attempt whose handler is over.
func (c *counters) Ended(t jobs.Task, _ ledger.Result, took time.Duration) {
	c.attemptDuration.WithLabelValues(t.Pool).Observe(took.Seconds())
}

// Recorded counts what the store made of a result.
func (c *counters) Recorded(t jobs.Task, r ledger.Result, f ledger.Finished) {
	switch {
	case f.Finish == ledger.Fenced:
		c.fenced.WithLabelValues().Inc()
		return
	case r.Verdict == ledger.HandBack:
		c.handedBack.WithLabelValues(t.Pool).Inc()
		return
	case f.Finish == ledger.Late:
		c.late.WithLabelValues().Inc()
	}
	c.attempts.WithLabelValues(t.Pool, string(r.State)).Inc()
	c.went(t, r.State, f.Task.State)
}

// Reaped counts a task that was found with a dead owner.
func (c *counters) Reaped(r ledger.Reaped) {
	c.tasksReaped.WithLabelValues(r.Task.Pool).Inc()
	c.attempts.WithLabelValues(r.Task.Pool, string(jobs.StateLost)).Inc()
	c.went(r.Task, jobs.StateLost, r.Task.State)
}

// went counts where a task is after an attempt. What the store does not say is not counted.
func (c *counters) went(t jobs.Task, attempt, now jobs.State) {
	switch {
	case now == jobs.StatePending:
		c.retries.WithLabelValues(t.Pool, string(attempt)).Inc()
	case now != "" && now.Ended():
		c.tasksEnded.WithLabelValues(t.Pool, string(now)).Inc()
		if t.Job == "" || t.RetryOf != "" { // a retry by hand is no trigger
			return
		}
		outcome, result := jobs.Ran, string(now)
		if now == jobs.StateLost {
			outcome, result = jobs.Lost, ""
		}
		c.triggersEnded.WithLabelValues(string(outcome), result).Inc()
	}
}

// Asked counts a call for locks.
func (c *counters) Asked(backend string, a locks.Asked) {
	result := "granted"
	for _, part := range []struct {
		result string
		keys   int
	}{{"unavailable", a.Unavailable}, {"unknown", a.Unknown}, {"busy", a.Busy}, {"granted", a.Granted}} {
		if part.keys > 0 {
			c.lockKeys.WithLabelValues(backend, part.result).Add(float64(part.keys))
			result = part.result
		}
	}
	c.lockDuration.WithLabelValues(backend, result).Observe(a.Took.Seconds())
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
	c.lockRenew.WithLabelValues(backend, result).Observe(took.Seconds())
}

// Lost counts locks that ended before they were released.
func (c *counters) Lost(backend string, keys int, cause error) {
	reason := "forced"
	if !errors.Is(cause, locks.ErrForced) {
		reason = "lost"
		c.lockSessionsLost.WithLabelValues(backend).Inc()
	}
	c.lockLost.WithLabelValues(backend, reason).Add(float64(keys))
}
