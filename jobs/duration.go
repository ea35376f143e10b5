package jobs

import (
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/duration"
)

// Duration is a time.Duration that is text in JSON, as in 1m30s.
type Duration time.Duration

func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads what definitions may write: a number with a unit, "d" for 24 hours included, without a sign, up to a year.
func (d *Duration) UnmarshalText(text []byte) error {
	is, err := duration.Parse(string(text))
	*d = Duration(is)
	return err
}
