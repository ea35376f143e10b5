package ledger

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// Whatever is taken and when, no stretch of time has more starts than the burst and what the rate gives in it; and a taker of all
// that there is gets as many.
func TestBucket(t *testing.T) {
	for _, l := range []Limits{
		{Rate: jobs.Rate{Count: 50, Per: time.Second}},
		{Rate: jobs.Rate{Count: 3, Per: time.Second}, Burst: 1},
		{Rate: jobs.Rate{Count: 7, Per: time.Minute}, Burst: 20},
		{Rate: jobs.Rate{Count: 1, Per: 24 * time.Hour}},
		{Rate: jobs.Rate{Count: 1_000_000, Per: time.Second}, Burst: 1_000_000},
	} {
		random := rand.New(rand.NewPCG(1, 2))
		burst := l.Burst
		if burst == 0 {
			burst = l.Rate.OneSecond()
		}
		now := time.Unix(1_800_000_000, 0)
		if n := l.Starts(0, now); n != burst {
			t.Errorf("%+v: a full bucket lets %d start, want %d", l, n, burst)
		}
		var b Bucket
		type started struct {
			at time.Time
			n  int
		}
		var all []started
		for range 500 {
			now = now.Add(time.Duration(random.Int64N(int64(3 * l.Rate.Interval()))))
			n := l.Starts(b, now)
			if opens := l.OpensIn(b, now); (opens == 0) != (n > 0) || n == 0 && (l.Starts(b, now.Add(opens)) != 1 || l.Starts(b, now.Add(opens-1)) != 0) {
				t.Fatalf("%+v: %d may start, and one more in %v", l, n, opens)
			}
			if n > 0 {
				n = 1 + random.IntN(n)
				b = l.Started(b, now, n)
				all = append(all, started{now, n})
			}
		}
		total := 0
		for i, from := range all {
			sum := 0
			for _, to := range all[i:] {
				sum += to.n
				if most := burst + int(to.at.Sub(from.at)/l.Rate.Interval()); sum > most {
					t.Fatalf("%+v: %d started in %v, want %d at most", l, sum, to.at.Sub(from.at), most)
				}
			}
			total += from.n
		}
		if total < burst {
			t.Errorf("%+v: %d started", l, total)
		}
	}
}

// A clock that is set back, or a rate that is changed, holds nothing up for longer than an empty bucket takes to fill.
func TestBucketOfAnotherTime(t *testing.T) {
	l := Limits{Rate: jobs.Rate{Count: 10, Per: time.Second}, Burst: 5}
	now := time.Unix(1_800_000_000, 0)
	b := Bucket(now.Add(time.Hour).UnixNano())
	if opens := l.OpensIn(b, now); opens != 100*time.Millisecond {
		t.Errorf("it opens in %v", opens)
	}
	kept := l.Possible(b, now)
	if n := l.Starts(kept, now.Add(time.Second)); n != 5 || l.Starts(kept, now) != 0 {
		t.Errorf("after a second %d may start", n)
	}
	if again := l.Possible(kept, now.Add(time.Millisecond)); again != kept {
		t.Errorf("one that can be is changed by %d", again-kept)
	}
	slow := Limits{Rate: jobs.Rate{Count: 1, Per: 24 * time.Hour}, Burst: 1_000_000} // its burst is that of a year
	if n := slow.Starts(0, now); n != 366 {
		t.Errorf("%d start at once at 1/d", n)
	}
	if n := (Limits{MaxRunning: 1}).Starts(b, now); n < 1<<30 {
		t.Errorf("without a rate %d may start", n)
	}
}

// Under other limits as many starts lack in the bucket as before, and no more than all.
func TestBucketUnderOtherLimits(t *testing.T) {
	hourly, minutely := jobs.Rate{Count: 1, Per: time.Hour}, jobs.Rate{Count: 1, Per: time.Minute}
	now := time.Unix(1_800_000_000, 0)
	for _, c := range []struct {
		from, to Limits
		lacks    time.Duration // in the bucket before
		want     time.Duration // and then
	}{
		{Limits{Rate: hourly, Burst: 5}, Limits{Rate: minutely, Burst: 5}, 90 * time.Minute, 90 * time.Second},
		{Limits{Rate: minutely, Burst: 5}, Limits{Rate: hourly, Burst: 5}, 90 * time.Second, 90 * time.Minute},
		{Limits{Rate: minutely, Burst: 5}, Limits{Rate: hourly, Burst: 1}, 90 * time.Second, time.Hour},
		{Limits{Rate: minutely, Burst: 5}, Limits{Rate: minutely, Burst: 7, MaxRunning: 1}, 90 * time.Second, 90 * time.Second},
		{Limits{Rate: minutely, Burst: 5}, Limits{Rate: minutely, Burst: 1}, 90 * time.Second, time.Minute},
		{Limits{Rate: minutely, Burst: 5}, Limits{Rate: hourly, Burst: 9}, 24 * time.Hour, 5 * time.Hour}, // of a clock that was set back
		{Limits{Rate: minutely, Burst: 5}, Limits{MaxRunning: 1}, 90 * time.Second, 0},
		{Limits{MaxRunning: 1}, Limits{Rate: minutely, Burst: 5}, 90 * time.Second, 0},
		{Limits{Rate: minutely}, Limits{Rate: hourly}, -time.Minute, -time.Minute},
	} {
		b := c.from.Converted(Bucket(now.Add(c.lacks).UnixNano()), now, c.to)
		if got := time.Unix(0, int64(b)).Sub(now); got != c.want {
			t.Errorf("%+v, which lacks %v, under %+v lacks %v, want %v", c.from, c.lacks, c.to, got, c.want)
		}
	}
}

func TestLimitsUnderAnOverride(t *testing.T) {
	own := Limits{MaxRunning: 5, Rate: jobs.Rate{Count: 50, Per: time.Second}, Burst: 7}
	for want, o := range map[Limits]wire.PoolLimits{
		own: {},
		{MaxRunning: 0, Rate: own.Rate, Burst: 7}:                            {MaxRunning: new(0)},
		{MaxRunning: 5, Burst: 7}:                                            {Rate: new(jobs.Rate{})},
		{MaxRunning: 9, Rate: jobs.Rate{Count: 1, Per: time.Hour}, Burst: 1}: {MaxRunning: new(9), Rate: new(jobs.Rate{Count: 1, Per: time.Hour}), Burst: new(1)},
	} {
		if got := own.Under(o); got != want {
			t.Errorf("%+v under %+v is %+v", own, o, got)
		}
	}
	if (Limits{}).None() != true || (Limits{Burst: 3}).None() != true || (Limits{MaxRunning: 1}).None() || own.None() {
		t.Error("None is wrong")
	}
}

// The time for n starts is when the last of them may start, if each starts as soon as it may.
func TestOpensFor(t *testing.T) {
	l, now := Limits{Rate: jobs.Rate{Count: 2, Per: time.Second}, Burst: 3}, time.Unix(1_800_000_000, 0)
	for n, want := range map[int]time.Duration{1: 0, 3: 0, 4: time.Second / 2, 10_001: 9998 * time.Second / 2} {
		if got := l.OpensFor(n, 0, now); got != want {
			t.Errorf("%d of a full bucket: %v, want %v", n, got, want)
		}
		if got := l.OpensFor(n, l.Started(0, now, 3), now); got != time.Duration(n)*time.Second/2 {
			t.Errorf("%d of an empty bucket: %v", n, got)
		}
	}
	if got := (Limits{}).OpensFor(10_001, 0, now); got != 0 {
		t.Errorf("without a rate: %v", got)
	}
	year := Limits{Rate: jobs.Rate{Count: 1, Per: 366 * 24 * time.Hour}, Burst: 1}
	if got := year.OpensFor(10_001, 0, now); got != 100*366*24*time.Hour {
		t.Errorf("of a rate of one a year: %v", got)
	}
}
