package boottime

import (
	"testing"
	"time"
)

// A moment means the same to another process: it is read on the kernel's clock, and is never later
// than it was meant.
func TestStamp(t *testing.T) {
	for what, moment := range map[string]Instant{"asleep too": Now(), "awake": Awake()} {
		later := moment.Add(time.Hour)
		stamp := later.Stamp()
		if stamp.Awake != (what == "awake") || stamp.IsZero() {
			t.Errorf("%s: %+v", what, stamp)
		}
		left, want := stamp.Until(Clock), later.Until()
		if left > want+time.Millisecond || left < want-time.Second {
			t.Errorf("%s: %v are left, want %v", what, left, want)
		}
	}
}

// The lid is closed for an hour: that counts on one clock and not on the other.
func TestTheLidIsClosed(t *testing.T) {
	const slept = time.Hour
	before := Clock
	after := func(awake bool) time.Duration {
		if awake {
			return before(true)
		}
		return before(false) + slept
	}
	awake, asleep := Awake().Add(10*time.Second).Stamp(), Now().Add(10*time.Second).Stamp()
	if left := awake.Until(after); left < 9*time.Second || left > 10*time.Second {
		t.Errorf("awake: %v are left", left)
	}
	if left := asleep.Until(after); left > -slept+10*time.Second {
		t.Errorf("asleep too: %v are left", left)
	}
	// The same for this process's own view: an instant that counts sleep has passed.
	if i := (Instant{mono: time.Now(), boot: before(false) - slept}); i.Elapsed() < slept {
		t.Errorf("elapsed %v", i.Elapsed())
	}
}
