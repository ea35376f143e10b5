//go:build linux

package chaos

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// machine records the runs that load the machine.
var machine strain

// strain is when which runs used all processors of the machine.
type strain struct {
	mu    sync.Mutex
	spans []*span
}

type span struct {
	dir      string // of the run that did it
	what     string
	from, to time.Time // zero: it goes on
}

// begin notes that a run begins to load the machine, until end is called.
func (s *strain) begin(dir, what string) (end func()) {
	one := &span{dir: dir, what: what, from: time.Now()}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spans = append(s.spans, one)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		one.to = time.Now()
	}
}

// beside are the windows that other runs than that of dir have opened between two moments.
func (s *strain) beside(dir string, from, to time.Time) (all []history.Window) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.spans {
		end := one.to
		if end.IsZero() || end.After(to) {
			end = to
		}
		if one.dir == dir || one.from.After(to) || end.Before(from) {
			continue
		}
		all = append(all, history.Window{
			Nemesis: one.what + " elsewhere", Elsewhere: true,
			Began: one.from, Healed: end, Applied: true, Evidence: "another cell on this machine",
		})
	}
	slices.SortFunc(all, func(a, b history.Window) int { return a.Began.Compare(b.Began) })
	return all
}

// A run has the load of others while it went on, and nothing else.
func TestBeside(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	var s strain
	for _, one := range []span{
		{"own", "busy-cores", at(20), at(30)},
		{"other", "opening", at(0), at(9)}, // before
		{"other", "opening", at(5), at(12)},
		{"other", "busy-cores", at(40), at(50)},
		{"other", "busy-cores", at(70), time.Time{}}, // goes on
		{"other", "opening", at(90), at(95)},         // after
	} {
		s.spans = append(s.spans, &one)
	}
	want := []struct {
		name     string
		from, to time.Time
	}{{"opening elsewhere", at(5), at(12)}, {"busy-cores elsewhere", at(40), at(50)}, {"busy-cores elsewhere", at(70), at(80)}}
	got := s.beside("own", at(10), at(80))
	if len(got) != len(want) {
		t.Fatalf("%d windows, want %d: %+v", len(got), len(want), got)
	}
	for i, w := range want {
		if g := got[i]; g.Nemesis != w.name || !g.Began.Equal(w.from) || !g.Healed.Equal(w.to) || !g.Elsewhere || !g.Applied {
			t.Errorf("%+v, want %+v", g, w)
		}
	}
	end := s.begin("other", "busy-cores")
	if last := s.spans[len(s.spans)-1]; !last.to.IsZero() {
		t.Error("it has ended as it begins")
	} else if end(); last.to.IsZero() {
		t.Error("it goes on when it has ended")
	}
}
