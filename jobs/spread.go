package jobs

import "time"

// offset is how much later than written the due times of the job with that name are, in whole seconds: 0 without Spread, and
// else less than that. It is chosen by the name and the word spread, with a line feed between, and never changes: due times depend on it.
func (j Job) offset(name string) time.Duration {
	if j.Spread < time.Second {
		return 0
	}
	return time.Duration(choose(name+"\nspread", uint64(j.Spread/time.Second))) * time.Second
}

// moved is a rule whose due times are later by a fixed time, whatever clocks show then.
type moved struct {
	rule
	by time.Duration
}

func (m moved) next(t time.Time) time.Time {
	due := m.rule.next(m.back(t))
	if due.IsZero() {
		return due
	}
	return due.Add(m.by)
}

func (m moved) count(after, until time.Time) int {
	if after, until = m.back(after), m.back(until); until.After(after) {
		return m.rule.count(after, until)
	}
	return 0
}

// back is the time by which the rule is asked for t. No rule is asked for what is before the earliest time.
func (m moved) back(t time.Time) time.Time {
	if t = t.Add(-m.by); t.Before(earliest) {
		return earliest
	}
	return t
}
