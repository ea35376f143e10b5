package judge

import "time"

// loss is an attempt that ended as lost.
type loss struct {
	at      time.Time
	seq     int64
	task    string
	job     string
	replica string
	token   int64
	reason  string
}

// losses are read from the audit: they stay losses if a late result replaced them.
func (t *trial) losses() []loss {
	if t.lost != nil {
		return t.lost
	}
	t.lost = []loss{}
	for _, c := range t.h.Audit {
		if (c.Table == "done" || c.Table == "attempts") && c.Before == nil && c.After != nil && c.After.State == "lost" {
			r := c.After
			t.lost = append(t.lost, loss{dbTime(c.At), c.Seq, rowID(*r), t.tasks[rowID(*r)], r.Replica, r.Token, r.Reason})
		}
	}
	return t.lost
}
