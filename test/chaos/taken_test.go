package chaos

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
	"github.com/lockstep-scheduler/lockstep/test/processors"
)

const (
	// takenLeast is the part of the processors' time that others on the same hardware must have between two
	// looks, to be to blame for what is late then.
	takenLeast = 1.0 / 3
	lookEvery  = time.Second
)

// taken is when others on the same hardware had the processors of this machine.
type taken struct {
	windows []history.Window
	most    float64 // in the last of them
}

// watch looks until ctx is done.
func (k *taken) watch(ctx context.Context) error {
	last, err := processors.Read()
	from := time.Now()
	for err == nil {
		if pause(ctx, lookEvery); ctx.Err() != nil {
			return nil
		}
		var now processors.Reading
		if now, err = processors.Read(); err == nil {
			to := time.Now()
			k.note(from, to, now.TakenSince(last))
			last, from = now, to
		}
	}
	return err
}

// note takes note of the part that they had between two moments.
func (k *taken) note(from, to time.Time, part float64) {
	if part < takenLeast {
		return
	}
	if n := len(k.windows); n == 0 || !k.windows[n-1].Healed.Equal(from) {
		k.most = 0
		k.windows = append(k.windows, history.Window{
			Nemesis: "others on this hardware", Elsewhere: true, Kinds: []history.Kind{history.MachineTaken}, Began: from, Applied: true,
		})
	}
	k.most = max(k.most, part)
	w := &k.windows[len(k.windows)-1]
	w.Healed, w.Evidence = to, fmt.Sprintf("they had up to %.0f %% of the processors", 100*k.most)
}

// What lies together is one window, and what is less than a third is none.
func TestTaken(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	var k taken
	for s, part := range []float64{0.3, 0.4, 0.9, 0.35, 0.1, 0, 0.5, 0.33} {
		k.note(at(s), at(s+1), part)
	}
	want := []struct {
		from, to int
		evidence string
	}{{1, 4, "they had up to 90 % of the processors"}, {6, 7, "they had up to 50 % of the processors"}}
	if len(k.windows) != len(want) {
		t.Fatalf("%+v, want %+v", k.windows, want)
	}
	for i, w := range want {
		if g := k.windows[i]; !g.Began.Equal(at(w.from)) || !g.Healed.Equal(at(w.to)) || g.Evidence != w.evidence || !g.Elsewhere || !g.Applied {
			t.Errorf("%+v, want %+v", g, w)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := k.watch(ctx); err != nil {
		t.Error(err)
	}
}
