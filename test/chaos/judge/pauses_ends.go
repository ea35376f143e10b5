package judge

import "github.com/lockstep-scheduler/lockstep/test/chaos/history"

// recording tells the ends of attempts of one pool in one transaction from those in the next, by the order in which a transaction writes: rows of
// {done}, then it deletes these tasks; then tasks that are pending again, and then rows of {attempts}. The next transaction waits until the row of
// the pool is free. A transaction without {done} after one without {attempts} is taken for the same.
type recording struct {
	ended    map[string]bool // tasks in {done}
	deleted  bool            // the first of these tasks
	attempts int64           // place in the audit of the first row of {attempts}; 0: none
}

// next reports whether a row of {done} or {attempts} is of another transaction than those before; requeued is where its task became pending again.
func (r *recording) next(c history.Change, id string, requeued int64) bool {
	is := c.Table == "done" && (r.deleted || r.attempts > 0) || c.Table == "attempts" && r.attempts > 0 && requeued > r.attempts
	if is {
		*r = recording{}
	}
	switch {
	case c.Table == "attempts" && r.attempts == 0:
		r.attempts = c.Seq
	case c.Table == "done":
		if r.ended == nil {
			r.ended = map[string]bool{}
		}
		r.ended[id] = true
	}
	return is
}

// leaves notes that a task's row is deleted.
func (r *recording) leaves(id string) { r.deleted = r.deleted || r.ended[id] }
