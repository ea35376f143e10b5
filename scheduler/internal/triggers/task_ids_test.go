package triggers

import "testing"

// A due time that is decided again, as a COMMIT had no answer, opens the same task.
func TestADueTimeHasOneTaskID(t *testing.T) {
	ids := taskIDs{}
	seen := map[string]taskID{}
	for range 2 {
		for _, key := range []taskID{{"a", 0}, {"a", 1}, {"b", 0}} {
			id := ids.get(key.job, key.n)
			if other, known := seen[id]; known && other != key {
				t.Errorf("%v and %v are one task", key, other)
			}
			seen[id] = key
		}
	}
	if len(seen) != 3 {
		t.Errorf("three due times have %d tasks", len(seen))
	}
}
