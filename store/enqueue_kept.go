package store

// batchKept reports whether the COMMIT of a batch without an answer happened, by one of the rows that it wrote.
func (t *tx) batchKept(batch []*newTask) (bool, error) {
	for _, p := range batch {
		if !p.existed {
			return t.kept(p.task.ID)
		}
	}
	for _, p := range batch {
		if p.replaced != nil {
			return t.replacedKept(*p.replaced)
		}
	}
	for _, p := range batch {
		if p.added {
			return t.One("SELECT 1 FROM {idempotency} WHERE pool=? AND idem_key=? AND task_id=?{for_update}", []any{p.task.Pool, p.key, p.task.ID}, new(int))
		}
	}
	return true, nil // nothing was written
}

// replacedKept reports whether a replaced task is, or was claimed, as it was written. If another change came after it, nothing is lost if the
// replacement is made again.
func (t *tx) replacedKept(wrote openTask) (bool, error) {
	rows, err := t.openTasks(taskColumns, " WHERE id=?{for_update}", wrote.ID)
	if err != nil {
		return false, err
	}
	if len(rows) > 0 {
		return wasWritten(rows[0].Task, wrote.Task), nil
	}
	ended, err := t.tasksByID([]string{wrote.ID})
	return wasWritten(ended[wrote.ID], wrote.Task), err
}

// kept reports whether a task was committed, and waits for a COMMIT in progress. The task may have ended since.
func (t *tx) kept(id string) (bool, error) {
	var n int
	found, err := t.One(`SELECT 1 FROM {tasks} WHERE id = ?{for_update}`, []any{id}, &n)
	if err != nil || found {
		return found, err
	}
	return t.One(`SELECT 1 FROM {done} WHERE id = ?{for_update}`, []any{id}, &n)
}
