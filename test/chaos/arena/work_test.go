//go:build linux

package arena

import (
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// Due times in the words of the configuration are those that the judge counts.
func TestSchedules(t *testing.T) {
	begin := time.Date(2026, 3, 1, 11, 59, 30, 0, time.UTC)
	for _, j := range jobsOfRun() {
		want := map[time.Time]bool{}
		for _, due := range j.Due {
			for at := time.Unix(0, begin.UnixNano()/int64(due.Period)*int64(due.Period)).UTC().Add(due.Offset); at.Before(begin.Add(2 * time.Minute)); at = at.Add(due.Period) {
				if at.After(begin) {
					want[at] = true
				}
			}
			s, err := jobs.ParseSchedule([]string{schedule(due)}, "UTC")
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			for at := s.Next(begin); at.Before(begin.Add(2 * time.Minute)); at = s.Next(at) {
				n++
				if !want[at.UTC()] {
					t.Errorf("%s: %q is due at %v", j.Name, schedule(due), at)
				}
			}
			if least := int(2*time.Minute/due.Period) - 1; n < least {
				t.Errorf("%s: %q is due %d times in two minutes", j.Name, schedule(due), n)
			}
		}
	}
}
