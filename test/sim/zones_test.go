package sim

import (
	"testing"
	"time"

	tz "github.com/lockstep-scheduler/lockstep/internal/zone"
)

// The table of zones is right: at each quarter of an hour of the year.
func TestZonesAreAsTheyWere(t *testing.T) {
	for _, z := range zones {
		loc, err := tz.Load(z.name)
		if err != nil {
			t.Fatal(err)
		}
		for at := in2000(time.January, 1, 0, 0); at.Year() == 2000; at = at.Add(15 * time.Minute) {
			for _, at := range []time.Time{at, at.Add(-time.Second)} {
				if _, offset := at.In(loc).Zone(); z.offsetAt(at) != time.Duration(offset)*time.Second {
					t.Fatalf("%s at %v: %v, not %d s", z.name, at, z.offsetAt(at), offset)
				}
			}
		}
	}
}
