package jobs

import (
	"fmt"
	"sync"
	"testing"
)

// A compiler is used by several goroutines, also for the same calendars.
func TestCompilerOfSeveralGoroutines(t *testing.T) {
	set := Set{Calendars: map[string]Calendar{}}
	for i := range 50 {
		set.Calendars[fmt.Sprint("c", i)] = Calendar{Weekly: []string{"SUN"}, Dates: []string{"2026-12-25"}}
	}
	c, hashes := set.Compiler(), make([]string, 8)
	var all sync.WaitGroup
	for n := range hashes {
		all.Go(func() {
			for name := range set.Calendars { // in another order each
				j := Job{Schedule: "@daily", Calendars: JobCalendars{Exclude: []string{name}}}
				if _, err := c.Compile("j", j); err != nil {
					t.Error(err)
				}
			}
			hashes[n] = c.Hash(Job{Calendars: JobCalendars{Exclude: []string{"c7", "c8"}}})
		})
	}
	all.Wait()
	for _, hash := range hashes {
		if hash != hashes[0] || hash == (Job{Calendars: JobCalendars{Exclude: []string{"c7", "c8"}}}).Hash() {
			t.Errorf("hashes %q", hashes)
		}
	}
}
