package duration

import (
	"errors"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	for s, want := range map[string]time.Duration{"90s": 90 * time.Second, "2d": 48 * time.Hour, "1d12h": 36 * time.Hour, "1.5h": 90 * time.Minute, "366d": Max, "8784h": Max, "365d24h": Max, "0s": 0, "250ms": 250 * time.Millisecond} {
		if got, err := Parse(s); err != nil || got != want {
			t.Errorf("Parse(%q) = %v, %v, want %v", s, got, err, want)
		}
	}
	for _, s := range []string{"", "0", "30", "1:30", "-5s", "+5s", "5 m", "d", "1w", "12h1d", "367d", "9999999h", "99999999999999h", "366d1ns", "999999d", "1d2562047h", "366d2562047h", "1d1d", "∞"} {
		if got, err := Parse(s); err == nil {
			t.Errorf("Parse(%q) = %v, want an error", s, got)
		}
	}
	for s, want := range map[string]bool{"367d": true, "99999999999999h": true, "366d1ns": true, "-5s": false, "30": false} {
		if _, err := Parse(s); errors.Is(err, ErrTooLong) != want {
			t.Errorf("Parse(%q): %v", s, err)
		}
	}
}
