package bench

import (
	"fmt"
	"slices"
	"testing"
)

// samples are what one contestant reached, round by round.
type samples []float64

func (s samples) median() float64 {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	mid := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[mid]
	}
	return (sorted[mid-1] + sorted[mid]) / 2
}

// per is the ratio to another contestant of the same rounds.
func (s samples) per(other samples) samples {
	ratios := make(samples, min(len(s), len(other)))
	for i := range ratios {
		ratios[i] = s[i] / other[i]
	}
	return ratios
}

// spread is the median with the smallest and the largest.
func (s samples) spread(format func(float64) string) string {
	if len(s) == 0 {
		return "–"
	}
	return fmt.Sprintf("%s (%s – %s)", format(s.median()), format(slices.Min(s)), format(slices.Max(s)))
}

// count writes a number with a sensible number of digits.
func count(x float64) string {
	switch {
	case x >= 1000:
		s := fmt.Sprintf("%.0f", x)
		for i := len(s) - 3; i > 0; i -= 3 {
			s = s[:i] + "," + s[i:]
		}
		return s
	case x >= 100:
		return fmt.Sprintf("%.0f", x)
	case x >= 10:
		return fmt.Sprintf("%.1f", x)
	default:
		return fmt.Sprintf("%.2f", x)
	}
}

// lasting writes a number of seconds.
func lasting(seconds float64) string {
	switch {
	case seconds >= 1:
		return count(seconds) + " s"
	case seconds >= 1e-3:
		return count(seconds*1e3) + " ms"
	default:
		return count(seconds*1e6) + " µs"
	}
}

func TestSamples(t *testing.T) {
	s, other := samples{4, 1, 9}, samples{2, 1, 3}
	if got := s.median(); got != 4 {
		t.Errorf("median %v, want 4", got)
	}
	if got := (samples{4, 1}).median(); got != 2.5 {
		t.Errorf("median of two %v, want 2.5", got)
	}
	if got := s.per(other).median(); got != 2 {
		t.Errorf("median of the ratios %v, want 2", got)
	}
	if got, want := s.spread(count), "4.00 (1.00 – 9.00)"; got != want {
		t.Errorf("spread %q, want %q", got, want)
	}
}

func TestNumbers(t *testing.T) {
	for x, want := range map[float64]string{0.5: "0.50", 12.34: "12.3", 999: "999", 9999: "9,999", 12345: "12,345", 1234567: "1,234,567"} {
		if got := count(x); got != want {
			t.Errorf("count(%v) = %q, want %q", x, got, want)
		}
	}
	for x, want := range map[float64]string{2: "2.00 s", 0.0125: "12.5 ms", 12e-6: "12.0 µs"} {
		if got := lasting(x); got != want {
			t.Errorf("lasting(%v) = %q, want %q", x, got, want)
		}
	}
}
