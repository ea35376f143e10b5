//go:build linux

package arena

import "testing"

func TestLoad(t *testing.T) {
	if load, err := Load(); err != nil || load < 0 {
		t.Errorf("%v, %v", load, err)
	}
}

func TestProcessors(t *testing.T) {
	earlier, err := parseProcessors("cpu  10 10 10 10 10 10 10 30 5 5")
	if err != nil {
		t.Fatal(err)
	}
	later, err := parseProcessors("cpu  20 20 20 40 10 10 20 60 9 9")
	if got := later.StolenSince(earlier); err != nil || got != 0.3 {
		t.Errorf("%v of the time was stolen, %v", got, err)
	}
	if got := later.StolenSince(later); got != 0 {
		t.Errorf("%v of no time was stolen", got)
	}
	if now, err := ReadProcessors(); err != nil || now.all < 1 {
		t.Errorf("here: %+v, %v", now, err)
	}
	for _, line := range []string{"", "cpu0 1 1 1 1 1 1 1 1", "cpu 1 1 1 1 1 1 1", "cpu 1 1 1 1 1 1 1 x"} {
		if _, err := parseProcessors(line); err == nil {
			t.Errorf("%q was understood", line)
		}
	}
}
