package jobs

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// A rate is read as it is written, and its text is read as the same rate again.
func TestParseRate(t *testing.T) {
	for given, want := range map[string]struct {
		rate Rate
		text string
	}{
		"0":         {Rate{}, "0"},
		"50/s":      {Rate{50, time.Second}, "50/s"},
		"100/m":     {Rate{100, time.Minute}, "100/m"},
		"5/h":       {Rate{5, time.Hour}, "5/h"},
		"1/d":       {Rate{1, day}, "1/d"},
		"20/10s":    {Rate{20, 10 * time.Second}, "20/10s"},
		"1/1s":      {Rate{1, time.Second}, "1/s"},
		"60/60s":    {Rate{60, time.Minute}, "60/m"},
		"7/1440m":   {Rate{7, day}, "7/d"},
		"7/24h":     {Rate{7, day}, "7/d"},
		"5/90s":     {Rate{5, 90 * time.Second}, "5/90s"},
		"5/120m":    {Rate{5, 2 * time.Hour}, "5/2h"},
		"10/1.5s":   {Rate{10, 1500 * time.Millisecond}, "10/1.5s"},
		"007/s":     {Rate{7, time.Second}, "7/s"},
		"1000000/s": {Rate{1_000_000, time.Second}, "1000000/s"},
	} {
		got, err := ParseRate(given)
		if err != nil || got != want.rate || got.String() != want.text {
			t.Errorf("%s is %+v, as text %s, %v; want %+v, %s", given, got, got, err, want.rate, want.text)
		}
		if again, err := ParseRate(want.text); err != nil || again != want.rate {
			t.Errorf("%s is %+v, %v; want %+v", want.text, again, err, want.rate)
		}
	}
}

// What is no rate is refused, with what to write.
func TestParseRateRefuses(t *testing.T) {
	const (
		form   = " is not a rate; write it as in 50/s, 100/m, 5/h or 20/10s, and 0 for no limit"
		number = " is not a rate: the number is out of range; allowed: 1 to 1000000"
		per    = " is not a rate: the time is out of range; allowed: 1s to 24h"
		noTime = " is not a rate: what follows the / is not a time; write s, m, h, d, or a duration as in 10s"
	)
	digits, long := strings.Repeat("9", 30), strings.Repeat("x", 81)
	for given, want := range map[string]string{
		"":            `""` + form,
		"50":          `"50"` + form,
		"00":          `"00"` + form,
		"/s":          `"/s"` + form,
		"50/":         `"50/"` + form,
		"50 /s":       `"50 /s"` + form,
		" 50/s":       `" 50/s"` + form,
		"-1/s":        `"-1/s"` + form,
		"+1/s":        `"+1/s"` + form,
		"1.5/s":       `"1.5/s"` + form,
		"50 per s":    `"50 per s"` + form,
		long:          `"` + long[:80] + `"` + form,
		"0/s":         `"0/s"` + number,
		"1000001/s":   `"1000001/s"` + number,
		digits + "/s": `"` + digits + `/s"` + number,
		"1/500ms":     `"1/500ms"` + per,
		"1/999ms":     `"1/999ms"` + per,
		"1/0s":        `"1/0s"` + per,
		"0/0s":        `"0/0s"` + number,
		"1/25h":       `"1/25h"` + per,
		"1/2d":        `"1/2d"` + per,
		"5/x":         `"5/x"` + noTime,
		"5/5":         `"5/5"` + noTime,
		"5/60":        `"5/60"` + noTime,
		"5/S":         `"5/S"` + noTime,
		"5/min":       `"5/min"` + noTime,
		"5/-1s":       `"5/-1s"` + noTime,
		"5/s/s":       `"5/s/s"` + noTime,
		"5/367d":      `"5/367d"` + noTime,
		"5/s\n":       `"5/s\n"` + form,
	} {
		if got, err := ParseRate(given); text(err) != want || got != (Rate{}) {
			t.Errorf("%q is %+v, %v\nwant %s", given, got, err, want)
		}
	}
}

// The interval is rounded up: no rounding lets more start. A burst is full again within a year.
func TestIntervalAndBurstsOfARate(t *testing.T) {
	for rate, want := range map[Rate]struct {
		interval        time.Duration
		oneSecond, most int
	}{
		{}:                       {0, 0, 1_000_000},
		{1_000_000, time.Second}: {1000, 1_000_000, 1_000_000},
		{50, time.Second}:        {20 * time.Millisecond, 50, 1_000_000},
		{20, 10 * time.Second}:   {500 * time.Millisecond, 2, 1_000_000},
		{3, time.Second}:         {333333334, 3, 1_000_000},
		{1, time.Second}:         {time.Second, 1, 1_000_000},
		{7, time.Minute}:         {8571428572, 1, 1_000_000},
		{1, time.Minute}:         {time.Minute, 1, 366 * 24 * 60},
		{5, time.Hour}:           {12 * time.Minute, 1, 366 * 24 * 5},
		{1, day}:                 {day, 1, 366},
	} {
		if i, one, most := rate.Interval(), rate.OneSecond(), rate.MostBurst(); i != want.interval || one != want.oneSecond || most != want.most {
			t.Errorf("%s: an interval of %d ns, %d in a second, a burst of %d at most; want %+v", rate, i, one, most, want)
		}
	}
}

// In JSON a rate is its text, and "0" without a limit. What is no rate is refused there too.
func TestRateInJSON(t *testing.T) {
	for _, rate := range []Rate{{}, {50, time.Second}, {20, 10 * time.Second}, {1, day}} {
		data, err := json.Marshal(rate)
		if err != nil || string(data) != `"`+rate.String()+`"` {
			t.Errorf("%s is %s, %v", rate, data, err)
		}
		again := Rate{9, time.Hour}
		if err := json.Unmarshal(data, &again); err != nil || again != rate {
			t.Errorf("%s is read again as %s, %v", data, again, err)
		}
	}
	var none Rate
	if err := json.Unmarshal([]byte(`"5/x"`), &none); err == nil || !strings.Contains(err.Error(), `"5/x" is not a rate`) {
		t.Errorf("5/x: %v", err)
	}
}
