package jobs

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/duration"
)

func TestRefusedExpressions(t *testing.T) {
	for _, c := range []struct{ spec, says string }{
		{"", "the expression is empty"},
		{" \t ", "the expression is empty"},
		{"* * * *", "5 fields are needed (minute, hour, day of month, month, day of week), or 6 with seconds first; found 4"},
		{"0 0 0 1 1 * 2027", "a field for the year (Quartz) is not supported"},
		{"* * * * * * * *", "found 8"},

		{"60 * * * *", "minute: 60 is out of range 0–59"},
		{"* 24 * * *", "hour: 24 is out of range 0–23"},
		{"* * 0 * *", "day of month: 0 is out of range 1–31"},
		{"* * 32 * *", "day of month: 32 is out of range 1–31"},
		{"* * * 13 *", "month: 13 is out of range 1–12"},
		{"* * * * 8", "day of week: 8 is out of range 0–7"},
		{"60 * * * * *", "second: 60 is out of range 0–59"},
		{"99999999999999999999 * * * *", "minute: 99999999999999999999 is out of range"},
		{"0-60 * * * *", "minute: 60 is out of range 0–59"},

		{", * * * *", "minute: an item of the list is empty"},
		{"1,,2 * * * *", "minute: an item of the list is empty"},
		{"1, * * * *", "minute: an item of the list is empty"},
		{"*-foo * * * *", `minute: "*-foo": only a step may stand beside *`},
		{"*-5 * * * *", `minute: "*-5": only a step`},
		{"?-9 * * * *", `minute: "?-9": only a step may stand beside ?`},
		{"5* * * * *", `minute: "5*": only a step`},
		{"** * * * *", `minute: "**": only a step`},
		{"+5 * * * *", `minute: "+5" is not a number`},
		{"-5 * * * *", "minute: a range or step has no start or end; write both, as in 0-59"},
		{"* * -5 * *", "day of month: a range or step has no start or end; write both, as in 1-31"},
		{"* * * -5 *", "month: a range or step has no start or end; write both, as in 1-12"},
		{"* * * * -5", "day of week: a range or step has no start or end; write both, as in 0-6"},
		{"* * MON-5 * *", `day of month: "MON" is not a number; write 1–31 without a sign`},
		{"5- * * * *", "minute: a range or step has no start or end"},
		{"1-2-3 * * * *", `minute: "2-3" is not a number`},
		{"/5 * * * *", "minute: a range or step has no start or end"},
		{"1.5 * * * *", `minute: "1.5" is not a number`},
		{"0x1 * * * *", `minute: "0x1" is not a number`},
		{"*/0 * * * *", "minute: \"*/0\": the step must be at least 1"},
		{"*/60 * * * *", "step 60 is larger than the range, so only 0 would be left; write 0"},
		{"*/90 * * * *", "minute: \"*/90\": step 90 is larger"},
		{"* */24 * * *", "hour: \"*/24\": step 24 is larger"},
		{"* * */31 * *", "day of month: \"*/31\": step 31 is larger"},
		{"10-12/3 * * * *", "so only 10 would be left; write 10"},
		{"5/55 * * * *", "so only 5 would be left"},
		{"*/-5 * * * *", `minute: "*/-5": the step after / must be a number`},
		{"*/+5 * * * *", "the step after / must be a number"},
		{"*/ * * * *", "the step after / must be a number"},
		{"*/5/5 * * * *", "the step after / must be a number"},
		{"*/99999999999999999999 * * * *", "is larger than the range"},
		{"MON * * * *", `minute: "MON" is not a number; write 0–59 without a sign`},
		{"~ * * * *", `minute: "~" is not supported: ~ is a random number in other crons; write H`},
		{"0~29 * * * *", `minute: "0~29" is not supported: ~ is a random number`},
		{"5L * * * *", `minute: "5L" is not a number`},
		{"0 0 MON * *", `day of month: "MON" is not a number`},
		{"0 0 1 L *", `month: "L" is neither a number 1–12 nor a name JAN–DEC`},
		{"0 0 * * 15W", `day of week: "15W" is not supported: W belongs to the day of month, as in 15W`},
		{"* * * FEBRUARY *", `month: "FEBRUARY" is neither a number 1–12 nor a name JAN–DEC`},
		{"* * * * MONDAY", "a name SUN–SAT"},

		{"0 0 ? * 2", "? in day of month comes from Quartz, where 1 is Sunday"},
		{"0 0 12 ? * 2-6", "name the days (MON-FRI)"},
		{"0 0 12 ? * MON,7", "comes from Quartz"},
		{"0 0 12 ? * MON/2,7", "comes from Quartz"},
		{"0 0 ? * 5L", "comes from Quartz"},
		{"0 0 ? * 6#3", "comes from Quartz"},

		{"0 0 L-0 * *", `day of month: "L-0": L-1 to L-30 are days before the last one`},
		{"0 0 L-31 * *", `"L-31": L-1 to L-30`},
		{"0 0 L-99999999999999999999 * *", "L-1 to L-30"},
		{"0 0 L3 * *", `"L3": behind L may stand how many days before the last one, and W, as in L-3 and LW`},
		{"0 0 L- * *", `"L-": behind L`},
		{"0 0 L-x * *", `"L-x": behind L`},
		{"0 0 L/2 * *", `"L/2": behind L`},
		{"0 0 LL * *", `"LL": behind L`},
		{"0 0 WL * *", `"WL": L is the last day of the month, and W stands behind one day, as in L-3, 15W and LW`},
		{"0 0 LWW * *", `"LWW": behind L`},
		{"0 0 1-L * *", `"1-L": L is the last day of the month`},
		{"0 0 W * *", `"W": L is the last day of the month, and W stands behind one day`},
		{"0 0 1-5W * *", `"1-5W": L is the last day`},
		{"0 0 15W/2 * *", `"15W/2": L is the last day`},
		{"0 0 *W * *", `"*W": L is the last day`},
		{"0 0 0W * *", "day of month: 0 is out of range 1–31"},
		{"0 0 32W * *", "day of month: 32 is out of range 1–31"},
		{"0 0 FRI#2 * *", `day of month: "FRI#2" is not supported: # counts weekdays; write it in the day of week, as in FRI#2`},
		{"0 0 * * L", `day of week: "L" is not supported: L needs its weekday, as in FRIL`},
		{"0 0 * * l", `day of week: "l" is not supported: L needs its weekday`},
		{"0 0 * * 8L", "day of week: 8 is out of range 0–7"},
		{"0 0 * * FOOL", `day of week: "FOO" is neither a number`},
		{"0 0 * * MON-FRIL", `day of week: "MON-FRI" is neither a number`},
		{"0 0 * * FRI#6", `day of week: "FRI#6": behind # stands 1 to 5, as a month has a weekday that often; for the last one write FRIL`},
		{"0 0 * * fri#6", `day of week: "fri#6": behind # stands 1 to 5, as a month has a weekday that often; for the last one write FRIL`},
		{"0 0 * * fool", `day of week: "foo" is neither a number`},
		{"0 0 l-0 * *", `day of month: "l-0": L-1 to L-30 are days before the last one`},
		{"0 0 w * *", `day of month: "w": L is the last day of the month`},
		{"0 0 * * FRI#0", `"FRI#0": behind # stands 1 to 5`},
		{"0 0 * * FRI#", `"FRI#": behind # stands 1 to 5`},
		{"0 0 * * FRI#+2", `"FRI#+2": behind # stands 1 to 5`},
		{"0 0 * * FRI#L", `"FRI#L": behind # stands 1 to 5`},
		{"0 0 * * #2", "day of week: a range or step has no start or end"},
		{"0 0 * * 8#2", "day of week: 8 is out of range 0–7"},
		{"0 0 * * MON-FRI#2", `day of week: "MON-FRI" is neither a number`},
		{"0 0 * * */2#1", `day of week: "*/2" is neither a number`},
		{"5#2 * * * *", `minute: "5#2" is not supported: # counts weekdays`},

		{"H * * * *", "minute: H is made of the name of a job, which an expression alone does not have; name one, as in scheduler next --job NAME"},
		{"h * * * *", "minute: H is made of the name of a job"},
		{"0 0 1,H(1-9)/3 * *", "day of month: H is made of the name of a job"},
		{"H5 * * * *", `minute: "H5": after H may stand a range in parentheses and a step, as in H(0-59)/10`},
		{"0 0 * H- *", `month: "H-": after H may stand a range in parentheses and a step, as in H(1-12)/10`},
		{"0 0 * * H()", `day of week: "H()": after H may stand a range in parentheses and a step, as in H(0-6)/6`},
		{"H(5) * * * *", `"H(5)": after H`},
		{"H(0-29 * * * *", `"H(0-29": after H`},
		{"H0-29) * * * *", `"H0-29)": after H`},
		{"H(0-60) * * * *", "minute: 60 is out of range 0–59"},
		{"H(x-60) * * * *", `minute: "x" is not a number`},
		{"H(-) * * * *", "minute: a range or step has no start or end"},
		{"H(29-0) * * * *", `"H(29-0)": a range of H does not wrap; H(0-29) chooses from 0 to 29`},
		{"0 H(22-2)/3 * * *", `"H(22-2)/3": a range of H does not wrap; H(2-22)/3 chooses from 2 to 22`},
		{"0 0 * * H(FRI-MON)", `"H(FRI-MON)": a range of H does not wrap; H(MON-FRI) chooses from 1 to 5`},
		{"0 0 * * H(SAT-SUN)", `"H(SAT-SUN)": a range of H does not wrap; Sunday is 7 at its end: H(SAT-7)`},
		{"0 0 H(1-29) * *", `day of month: "H(1-29)": H chooses a day that every month has; end the range at 28`},
		{"H/60 * * * *", `"H/60": step 60 is as large as the range, so only one number would be left; write H without a step`},
		{"H(0-9)/10 * * * *", `"H(0-9)/10": step 10 is as large as the range`},
		{"0 0 H/28 * *", `"H/28": step 28 is as large as the range`},
		{"H/0 * * * *", `minute: "H/0": the step must be at least 1`},
		{"H/x * * * *", "the step after / must be a number"},
		{"H/ * * * *", "the step after / must be a number"},
		{"H/99999999999999999999 * * * *", "is as large as the range"},

		{"@at", "@at: exactly one time must follow, as in @at 2026-12-24T18:00:00+01:00"},
		{"@at 2026-12-24 18:00:00Z", "@at: exactly one time must follow"},
		{"@at 2026-12-24T18:00:00", `@at: "2026-12-24T18:00:00" is not a time with its offset from UTC; write it as in @at 2026-12-24T18:00:00+01:00, or with Z for UTC`},
		{"@at 2026-02-30T18:00:00Z", `@at: "2026-02-30T18:00:00Z" is not a time`},
		{"@at tomorrow", `@at: "tomorrow" is not a time`},
		{"@at 2026-12-24T18:00:00.5Z", "@at: 2026-12-24T18:00:00.5Z is not a whole second"},
		{"@at 0000-01-01T00:00:00Z", "@at: the year must be from 1 to 9999"},
		{"@at 9999-12-31T00:00:00Z", "@at: the year must be from 1 to 9999"},
		{"@AT 2026-12-24T18:00:00Z", "unknown macro @AT; known are"},

		{"0 0 30W 2 *", "would never fire"},
		{"0 0 L-29 2 *", "would never fire"},
		{"0 0 */30 * MON#2", "day of month and day of week: a day has to match both, as one of them begins with *, and none does, it would never fire"},
		{"0 0 30 2 */2", "day of month: no such day in these months, it would never fire"},
		{"0 0 30 2 *", "would never fire"},
		{"0 0 31 2,4,6,9,11 *", "would never fire"},
		{"0 0 31 FEB ?", "would never fire"},

		{"TZ=UTC", "use timezone: for it"},
		{"TZ=UTC * * * * *", "use timezone: for it"},
		{"CRON_TZ=Asia/Tokyo 0 5 * * *", "use timezone: for it"},
		{"CRON_TZ=", "use timezone: for it"},
		{"  tz=0 * * * * *", "use timezone: for it"},
		{"cron_tz=Asia/Tokyo 0 5 * * *", "use timezone: for it"},

		{"@reboot", "@reboot is not supported"},
		{"@Daily", "unknown macro @Daily"},
		{"@fortnightly", "unknown macro"},
		{"@", "unknown macro"},
		{"@daily 5", "@daily: nothing may follow it"},
		{"@every", "@every: exactly one duration must follow"},
		{"@every 5m 3s", "@every: exactly one duration must follow"},
		{"@every5m", "unknown macro @every5m"},
		{"@every 5", "has no unit; did you mean 5s?"},
		{"@every 0s", "the period must be at least 1s"},
		{"@every 999ms", "the period must be at least 1s"},
		{"@every 1ns", "the period must be at least 1s"},
		{"@every 1.5s", "is not a whole number of seconds"},
		{"@every -5m", "is not a duration"},
		{"@every 9999999h", "is longer than a year"},
		{"@every 999999999999999999999d", "is not a duration"},
		{"@every 400d", "is longer than a year"},

		{"0 0 * * *\x00", "character U+0000"},
		{"0 0 * * *\n", "character U+000A"},
		{"0\u00a00 * * *", "character U+00A0"},
		{"\xff * * * *", "character U+FFFD"},
		{strings.Repeat("1,", 200) + "1 * * * *", "the expression has 409 bytes, at most 256 are allowed; use several schedules"},
	} {
		start := time.Now()
		_, err := ParseSchedule([]string{c.spec}, "")
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q: got %v, want an error with %q", c.spec, err, c.says)
		}
		shown := fmt.Sprintf("invalid schedule %q: ", strings.ToValidUTF8(c.spec[:min(len(c.spec), 256)], "�"))
		if !strings.HasPrefix(text(err), shown) {
			t.Errorf("%q: got %v, want it to begin with %s", c.spec, err, shown)
		}
		if took := time.Since(start); took > time.Second {
			t.Errorf("%q took %v", c.spec, took)
		}
	}
}

func TestAllFieldsThatAreWrongAreNamed(t *testing.T) {
	_, err := ParseSchedule([]string{"61 25 0 13 9"}, "")
	for _, name := range []string{"minute: ", "hour: ", "day of month: ", "month: ", "day of week: "} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%q is missing in %v", name, err)
		}
	}
}

// What the parser cannot take is an error, whatever it does then.
func TestTheParserDoesNotPanic(t *testing.T) {
	for _, spec := range []string{"TZ=", "* * * * *", "x * * * * *"} {
		if s, err := parseCanonical(spec); err == nil || s != nil || !strings.HasPrefix(err.Error(), "the expression cannot be parsed: ") {
			t.Errorf("%q: %v, %v", spec, s, err)
		}
	}
}

func TestSpellingsOfTheSame(t *testing.T) {
	for _, pair := range [][2]string{
		{"0 0 * * 7", "0 0 * * SUN"},
		{"0 0 * * 1-7", "0 0 * * 0-6"},
		{"0 0 * * 5-7", "0 0 * * FRI,SAT,SUN"},
		{"0 0 * * 6-7", "0 0 * * sat,sun"},
		{"0 0 * * 7-2", "0 0 * * SUN,MON,TUE"},
		{"0 0 * * 0-7", "0 0 * * *"},
		{"0 0 * * 7-7", "0 0 * * SUN"},
		{"0 0 * * FRI-MON", "0 0 * * FRI,SAT,SUN,MON"},
		{"0 0 * * fri-1", "0 0 * * 5,6,0,1"},
		{"0 0 * * 1-7/2", "0 0 * * 1,3,5,0"},
		{"0 22-2 * * *", "0 22,23,0,1,2 * * *"},
		{"0 22-4/2 * * *", "0 22,0,2,4 * * *"},
		{"50-10/10 * * * *", "50,0,10 * * * *"},
		{"0 0 28-3 * *", "0 0 28,29,30,31,1,2,3 * *"},
		{"0 0 1 NOV-FEB *", "0 0 1 11,12,1,2 *"},
		{"59-1 * * * *", "59,0,1 * * * *"},
		{"0 0 1 jan ?", "0 0 1 1 *"},
		{"0 0 ? * MON-FRI", "0 0 * * MON-FRI"},
		{"0 0 *,5 * MON", "0 0 * * MON"},
		{"0 0 *,5 * */1", "0 0 * * *"},
		{"0 0 5,*/1 * MON", "0 0 * * *"},
		{"0 0 1-31 * MON", "0 0 * * *"},
		{"0 0 l * *", "0 0 L * *"},
		{"0 0 lw,L-3w * *", "0 0 L-3W,LW * *"},
		{"0 0 * * fril", "0 0 * * 5L"},
		{"0 0 * * 7L", "0 0 * * SUNL"},
		{"0 0 * * fri#2", "0 0 * * 5#2"},
		{"0 0 * * 7#1,0#3", "0 0 * * SUN#1,SUN#3"},
		{"0 0 ? * FRI#2", "0 0 * * 5#2"},
		{"0 0 ? * FRIL", "0 0 * * 5L"},
		{"0 0 * * FRI#1,FRI#2,FRI#3,FRI#4,FRI#5", "0 0 * * FRI"},
		{"0 0 1-31,L * *", "0 0 * * *"},
		{"0 0 ? * MON/2", "0 0 * * MON,WED,FRI"},
		{"? * * * *", "* * * * *"},
		{"*/1 */1 * * *", "* * * * *"},
		{"5/15 * * * *", "5,20,35,50 * * * *"},
		{"05 00 01 * *", "5 0 1 * *"},
		{"*/59 * * * *", "0,59 * * * *"},
		{"  0\t 5   * * *  ", "0 5 * * *"},
		{"0 0 5 * * *", "0 5 * * *"},
		{"@yearly", "0 0 1 1 *"},
		{"@annually", "0 0 1 1 *"},
		{"@monthly", "0 0 1 * *"},
		{"@weekly", "0 0 * * 0"},
		{"@daily", "0 0 * * *"},
		{"@midnight", "0 0 * * *"},
		{"@hourly", "0 * * * *"},
		{"@every 5m", "*/5 * * * *"},
		{"@every 90m", "@every 1h30m"},
		{"@every 1d12h", "@every 36h"},
		{"@every 1s", "* * * * * *"},
		{"0 0 31 2 MON", "0 0 * 2 MON"},
		{"0 0 30 2,4 *", "0 0 30 4 *"},
		{"0 0 1-31/2 * MON", "0 0 1,3,5,7,9,11,13,15,17,19,21,23,25,27,29,31 * 1"},
	} {
		a, _ := schedule(t, "", pair[0]).Between(monday, monday.Add(400*day), 400)
		b, _ := schedule(t, "", pair[1]).Between(monday, monday.Add(400*day), 400)
		if len(a) == 0 || len(a) != len(b) {
			t.Errorf("%q has %d due times, %q has %d", pair[0], len(a), pair[1], len(b))
			continue
		}
		for i := range a {
			if !a[i].Equal(b[i]) {
				t.Errorf("%q is due at %v, %q at %v", pair[0], a[i], pair[1], b[i])
				break
			}
		}
	}
}

func FuzzParseSchedule(f *testing.F) {
	for _, seed := range []string{
		"30 2 * * *", "0 0 29 2 *", "*/15 9-17 * * MON-FRI", "@every 1d", "FRI-MON * * * *", "0 22-2 ? * 7", "TZ=UTC", "CRON_TZ=", ", * * * *", "@every -5m", "* * 31 2 0", "59-1/7,*/3 0 0 L W #",
		"0 0 L-3,15W,LW * FRI#2,SUNL", "H H(0-5)/2 H * H", "0 0 */2 * FRI#5", "0 0 29 2 */6", "@at 2026-12-24T18:00:00+01:00",
	} {
		f.Add(seed, "America/New_York", int64(1_772_953_200))
		f.Add(seed, "Pacific/Apia", int64(1_325_239_200))
	}
	f.Fuzz(func(t *testing.T, spec, zone string, unix int64) {
		start := time.Now()
		s, err := Job{Schedules: []string{spec}, Timezone: zone}.Compile("fuzz")
		if err != nil {
			if s != nil || err.Error() == "" {
				t.Fatalf("error %v with schedule %v", err, s)
			}
			return
		}
		at := time.Unix(unix, 0)
		for range 20 {
			due := s.Next(at)
			if due.IsZero() {
				if at.After(earliest) && at.Year() < 9950 && len(s.moments) == 0 {
					t.Fatalf("%q in %s: never due after %v", spec, zone, at)
				}
				break
			}
			if !due.After(at) {
				t.Fatalf("%q in %s: Next(%v) = %v, not after it", spec, zone, at, due)
			}
			// Nothing lies between: from anywhere before due, due is next.
			if mid := at.Add(due.Sub(at) / 2); due.Sub(at) < duration.Max*20 && at.After(earliest) && !s.Next(mid).Equal(due) {
				t.Fatalf("%q in %s: next after %v is %v, but after %v it is %v", spec, zone, at, due, mid, s.Next(mid))
			}
			if n, _ := s.CountBetween(at, due); n != 1 {
				t.Fatalf("%q in %s: %d due times after %v up to the next one, %v", spec, zone, n, at, due)
			}
			at = due
		}
		if took := time.Since(start); took > time.Second {
			t.Fatalf("%q in %s took %v", spec, zone, took)
		}
	})
}
