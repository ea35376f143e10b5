package boottime

import "time"

// Stamp is a moment on a clock of the kernel, which all processes of this machine share. It can be sent to
// another process. The zero Stamp is not a moment; it is the only one on systems other than Linux.
type Stamp struct {
	Awake bool          `json:"awake,omitempty"` // the clock stands still while the machine sleeps
	At    time.Duration `json:"at,omitempty"`    // since boot
}

// Stamp is i for other processes; never later than i, however long the conversion takes.
func (i Instant) Stamp() Stamp {
	if i.boot != 0 {
		return Stamp{At: i.boot}
	}
	now := Clock(true) // read before the time left: a process that is frozen in between must not gain time
	if now == 0 {
		return Stamp{}
	}
	return Stamp{Awake: true, At: now + i.Until()}
}

// IsZero reports whether s is the zero Stamp.
func (s Stamp) IsZero() bool { return s == Stamp{} }

// Until is the time left until s, by a clock such as Clock; negative once s has passed.
func (s Stamp) Until(clock func(awake bool) time.Duration) time.Duration {
	return s.At - clock(s.Awake)
}
