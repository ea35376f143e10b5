package wire

import (
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// Due is a future due time.
type Due struct {
	At    time.Time `json:"at"`    // UTC
	Local string    `json:"local"` // RFC 3339 in the schedule's zone
}

// DueTimes returns the first n due times of a schedule after a time; fewer if it ends.
func DueTimes(s *jobs.Schedule, zone *time.Location, after time.Time, n int) []Due {
	all := []Due{}
	for t := s.Next(after); !t.IsZero() && len(all) < n; t = s.Next(t) {
		all = append(all, Due{At: t.UTC(), Local: t.In(zone).Format(time.RFC3339)})
	}
	return all
}
