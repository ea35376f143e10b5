package jobs

import (
	"fmt"
	"math/bits"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/duration"
)

// readRule is an expression that goes on for ever, as it was written and as it was read.
type readRule struct {
	spec string
	rule rule
}

// tooClose says which due times of a job are not further apart than d where no clock jumps; "" if none are, as far as is looked:
// all those of each expression and, of several together, the first gapsOf since 2024.
func tooClose(rules []readRule, d time.Duration) string {
	together := &Schedule{}
	for _, r := range rules {
		if gap := shortest(r.rule, d); gap <= d {
			return fmt.Sprintf("the due times of %.80q are %v apart", r.spec, gap)
		}
		together.rules = append(together.rules, steadily(r.rule))
	}
	if len(rules) < 2 {
		return ""
	}
	last := together.Next(gapsSince)
	for range gapsOf {
		next := together.Next(last)
		if gap := next.Sub(last); !next.IsZero() && gap <= d {
			return fmt.Sprintf("its schedules are due %v apart, as on %s and at %s", gap, last.Format("Monday 2 January 2006 at 15:04:05"), next.Format("15:04:05"))
		}
		last = next
	}
	return ""
}

// gapsOf is eight days of an hourly schedule, and half a year of a daily one.
const gapsOf = 200

var gapsSince = time.Date(2024, time.January, 1, 0, 0, 0, 0, time.UTC).Add(-time.Second)

// steadily is a rule by a clock that does not jump.
func steadily(r rule) rule {
	switch r := r.(type) {
	case fixed:
		return fixed{r.wallClock, time.UTC}
	case running:
		return running{r.wallClock, time.UTC}
	}
	return r
}

// shortest is the shortest time between two due times of a rule where no clock jumps, if it is at most d; else it is some time above d.
func shortest(r rule, d time.Duration) time.Duration {
	switch r := r.(type) {
	case every:
		return time.Duration(r) * time.Second
	case fixed:
		return r.shortest(d)
	case running:
		return r.shortest(d)
	}
	return d + 1
}

// shortest is that of the readings of a clock. Two that follow each other differ by one step of a field; the fields below it show their last
// values first, and then their first ones.
func (c wallClock) shortest(d time.Duration) time.Duration {
	least := 10 * duration.Max
	var first, last time.Duration // of what the fields below show
	for _, f := range []struct {
		set  uint64
		unit time.Duration
	}{{c.spec.Second, time.Second}, {c.spec.Minute, time.Minute}, {c.spec.Hour, time.Hour}} {
		set := values(f.set)
		for before, after := 0, set; after != 0; after &= after - 1 {
			value := bits.TrailingZeros64(after)
			if after != set {
				least = min(least, time.Duration(value-before)*f.unit+first-last)
			}
			before = value
		}
		first, last = first+time.Duration(bits.TrailingZeros64(set))*f.unit, last+time.Duration(bits.Len64(set)-1)*f.unit
	}
	if day+first-last <= d {
		least = min(least, c.closestDays()+first-last)
	}
	return least
}

// closestDays is the shortest time from a day that matches to the next one, within the 28 years after which the calendar is the same again.
func (c wallClock) closestDays() time.Duration {
	least := 10 * duration.Max
	last := time.Time{}
	for d := c.nextDay(gapsSince); !d.IsZero() && d.Year() < 2024+28; d = c.nextDay(d) {
		if !last.IsZero() {
			if least = min(least, d.Sub(last)); least == day {
				break
			}
		}
		last = d
	}
	return least
}
