package refusals

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func TestAnIDIsRefusedForItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l List
		if l.Has("a") {
			t.Error("the zero List refuses")
		}
		l.Add("a", time.Minute)
		if !l.Has("a") || l.Has("b") {
			t.Errorf("a is refused: %t, b: %t; want a alone", l.Has("a"), l.Has("b"))
		}
		time.Sleep(time.Minute - 1)
		if !l.Has("a") {
			t.Error("it is refused no more before its time is over")
		}
		time.Sleep(1)
		if l.Has("a") {
			t.Error("it is refused after its time")
		}
	})
}

func TestAnIDThatIsAddedAgainIsRefusedForLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l List
		l.Add("a", time.Minute)
		time.Sleep(40 * time.Second)
		l.Add("a", time.Minute)
		time.Sleep(40 * time.Second)
		l.Add("b", time.Minute) // forgets the first refusal of a, and not the second
		if !l.Has("a") {
			t.Error("it is refused no more before the time of the second refusal is over")
		}
		time.Sleep(20 * time.Second)
		if l.Has("a") {
			t.Error("it is refused after its time")
		}
	})
}

func TestWhatIsNotRefusedAnyMoreIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l List
		for i := range 1000 {
			l.Add(fmt.Sprint(i), time.Minute)
			time.Sleep(time.Second)
			if most := min(i+1, 60); len(l.ends) != most || len(l.order) != most {
				t.Fatalf("%d ids and %d refusals are kept after %d, want %d", len(l.ends), len(l.order), i+1, most)
			}
		}
	})
}
