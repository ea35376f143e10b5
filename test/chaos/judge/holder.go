package judge

import (
	"regexp"
	"time"
)

// holder is the holder of a job's slot, as a reason names it.
type holder struct {
	run, task      string
	replica, since string // of one that runs
}

var holderWords = regexp.MustCompile(`^the run of (\S+) \(task (\S+)\) (?:` +
	`has been running on replica (.+) since (\S+Z)|has been pending in pool \S+ since \S+Z|` +
	`waits for a retry at \S+Z|waits until \S+Z|was opened first, at \S+Z)(?:; \d+ more of the job are open)?$`)

// readHolder reads a reason, and reports whether it is such a one.
func readHolder(reason string) (holder, bool) {
	m := holderWords.FindStringSubmatch(reason)
	if m == nil {
		return holder{}, false
	}
	return holder{m[1], m[2], m[3], m[4]}, true
}

// ranThere reports whether an attempt of the task began when and where the reason says.
func (t *trial) ranThere(said holder) bool {
	for _, c := range t.ordered {
		if c.row.ID == said.task && c.row.Replica == said.replica && dbTime(c.row.StartedAt).UTC().Format(time.RFC3339) == said.since {
			return true
		}
	}
	return false
}
