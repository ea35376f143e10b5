package triggers

import "github.com/google/uuid"

// taskIDs makes ids for the tasks that a decision opens. They are the same each time the store asks, so an unknown COMMIT
// can be settled by them.
type taskIDs map[taskID]string

type taskID struct {
	job string
	n   int
}

func (ids taskIDs) get(job string, n int) string {
	key := taskID{job, n}
	if ids[key] == "" {
		ids[key] = uuid.Must(uuid.NewV7()).String()
	}
	return ids[key]
}
