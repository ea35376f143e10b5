package judge

// expired is the reason code of a task that has expired.
const expired = "expired"

// expiries is the part of I8 about expires_at: the first attempt of a task starts before it; a task without one ends as cancelled, with the
// reason code expired, after it, and as soon as due times are decided, and 3 s more.
//
// A start has no excuse. Ends are excused as decisions are.
func (t *trial) expiries() {
	for _, c := range t.h.Audit {
		if c.After == nil || c.After.ExpiresAt == 0 && c.After.Code != expired {
			continue
		}
		r, who, over := c.After, "task "+c.After.ID, dbTime(c.After.ExpiresAt)
		at, timed := dbTime(c.At), t.sameClock(c.Seq)
		switch {
		case starting(c) && r.Attempt == 1 && r.StartedAt >= r.ExpiresAt:
			t.violate(OnTime, who, at, "started %v after it had expired", ms(dbTime(r.StartedAt).Sub(over)))
		case starting(c) && r.Attempt == 1 && timed && at.After(over.Add(seen+t.run.Slack)):
			t.violate(OnTime, who, at, "its start was written %v after it had expired", ms(at.Sub(over)))
		case c.Table != "done" || c.Before != nil || r.Code != expired:
		case r.State != "cancelled" || r.Attempt != 0:
			t.violate(OnTime, who, at, "expired as %s, with attempt %d", r.State, r.Attempt)
		case r.ExpiresAt == 0 || timed && at.Before(over.Add(-clockError)):
			t.violate(OnTime, who, at, "expired %v before its time", ms(over.Sub(at)))
		case timed && at.After(t.deadline(over).Add(reapTime)):
			t.violate(OnTime, who, at, "expired, and ended %v later", ms(at.Sub(over)))
		}
	}
}
