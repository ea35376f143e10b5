package processors

import "testing"

func TestRead(t *testing.T) {
	earlier, err := parse("cpu  10 10 10 10 10 10 10 30 5 5")
	if err != nil {
		t.Fatal(err)
	}
	later, err := parse("cpu  20 20 20 40 10 10 20 60 9 9")
	if got := later.TakenSince(earlier); err != nil || got != 0.3 {
		t.Errorf("%v of the time was taken, %v", got, err)
	}
	if got := later.TakenSince(later); got != 0 {
		t.Errorf("%v of no time was taken", got)
	}
	if now, err := Read(); err != nil || now.all < 1 {
		t.Errorf("here: %+v, %v", now, err)
	}
	for _, line := range []string{"", "cpu0 1 1 1 1 1 1 1 1", "cpu 1 1 1 1 1 1 1", "cpu 1 1 1 1 1 1 1 x"} {
		if _, err := parse(line); err == nil {
			t.Errorf("%q was understood", line)
		}
	}
}
