package jobs

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// daysOf is the days on which an expression is due from month/year on, for some months: "1/31 2/28".
func daysOf(t *testing.T, spec string, year int, month time.Month, months int) string {
	t.Helper()
	from := time.Date(year, month, 1, 0, 0, 0, 0, time.UTC)
	due, _ := schedule(t, "", spec).Between(from.Add(-time.Second), from.AddDate(0, months, 0).Add(-time.Second), 1000)
	var days []string
	for _, at := range due {
		days = append(days, fmt.Sprintf("%d/%d", at.Month(), at.Day()))
	}
	return strings.Join(days, " ")
}

// From January to June 2026: the months begin on Thursday, Sunday, Sunday, Wednesday, Friday and Monday, and end on Saturday, Saturday,
// Tuesday, Thursday, Sunday and Tuesday.
func TestDaysThatDependOnTheMonth(t *testing.T) {
	for _, c := range []struct{ spec, want string }{
		{"0 0 L * *", "1/31 2/28 3/31 4/30 5/31 6/30"},
		{"0 0 L-3 * *", "1/28 2/25 3/28 4/27 5/28 6/27"},
		{"0 0 L-28 * *", "1/3 3/3 4/2 5/3 6/2"},
		{"0 0 L-30 * *", "1/1 3/1 5/1"},
		{"0 0 1W * *", "1/1 2/2 3/2 4/1 5/1 6/1"},
		{"0 0 3W 1,5 *", "1/2 5/4"},
		{"0 0 15W * *", "1/15 2/16 3/16 4/15 5/15 6/15"},
		{"0 0 31W * *", "1/30 3/31 5/29"},
		{"0 0 30W * *", "1/30 3/30 4/30 5/29 6/30"},
		{"0 0 LW * *", "1/30 2/27 3/31 4/30 5/29 6/30"},
		{"0 0 L-3W * *", "1/28 2/25 3/27 4/27 5/28 6/26"},
		{"0 0 L-30W * *", "1/1 3/2 5/1"},
		{"0 0 1,L * *", "1/1 1/31 2/1 2/28 3/1 3/31 4/1 4/30 5/1 5/31 6/1 6/30"},
		{"0 0 1W,LW 2 *", "2/2 2/27"},
		{"0 0 L 2 *", "2/28"},
		{"0 0 * * FRI#2", "1/9 2/13 3/13 4/10 5/8 6/12"},
		{"0 0 * * 5#1", "1/2 2/6 3/6 4/3 5/1 6/5"},
		{"0 0 * * FRI#5", "1/30 5/29"},
		{"0 0 * * SUN#1,SUN#3 ", "1/4 1/18 2/1 2/15 3/1 3/15 4/5 4/19 5/3 5/17 6/7 6/21"},
		{"0 0 * * FRIL", "1/30 2/27 3/27 4/24 5/29 6/26"},
		{"0 0 * * 0L", "1/25 2/22 3/29 4/26 5/31 6/28"},
		{"0 0 * 3 TUEL,SAT#1", "3/7 3/31"},
		// Both day fields: either is enough, unless one begins with *.
		{"0 0 L * FRI#2", "1/9 1/31 2/13 2/28 3/13 3/31 4/10 4/30 5/8 5/31 6/12 6/30"},
		{"0 0 */2 * FRI#2", "1/9 2/13 3/13"},
		{"0 0 LW * */5", "1/30 2/27 5/29"},
		{"0 0 *,L 2 MON", "2/2 2/9 2/16 2/23"},
		{"0 0 */30,L 2 SAT#4", "2/28"}, // a 29th, the last day of leap years, is the fifth one always
	} {
		if diff := cmp.Diff(c.want, daysOf(t, c.spec, 2026, time.January, 6)); diff != "" {
			t.Errorf("%s (−want +got):\n%s", c.spec, diff)
		}
	}
	if got := daysOf(t, "0 0 1W,LW * *", 2026, time.August, 1); got != "8/3 8/31" { // 1 August 2026 is a Saturday
		t.Errorf("1W of a month that begins on a Saturday: %s", got)
	}
	if got := daysOf(t, "0 0 L * *", 2028, time.February, 1) + daysOf(t, "0 0 L * *", 2100, time.February, 1); got != "2/292/28" {
		t.Errorf("the last days of February 2028 and 2100: %s", got)
	}
}

// Days that come rarely are found, and each time of the day beside them.
func TestRareDays(t *testing.T) {
	for _, c := range []struct{ spec, after, want string }{
		{"0 0 */28 2 FRI#5", "2026-01-01T00:00:00Z", "2036-02-29T00:00:00Z"}, // the 29th, a fifth Friday
		{"0 0 */28 2 FRI#5", "2188-03-01T00:00:00Z", "2228-02-29T00:00:00Z"},
		{"0 0 29 2 */6", "2088-02-29T00:00:00Z", "2116-02-29T00:00:00Z"},
		{"0 30 8-9 LW * *", "2026-01-30T08:30:00Z", "2026-01-30T09:30:00Z"},
		{"0 30 8-9 LW * *", "2026-01-30T09:30:00Z", "2026-02-27T08:30:00Z"},
		{"59 59 23 L 12 *", "2026-12-31T23:59:58.5Z", "2026-12-31T23:59:59Z"},
		{"59 59 23 L 12 *", "2026-12-31T23:59:59Z", "2027-12-31T23:59:59Z"},
	} {
		after, err := time.Parse(time.RFC3339, c.after)
		if err != nil {
			t.Fatal(err)
		}
		if got := schedule(t, "", c.spec).Next(after).Format(time.RFC3339); got != c.want {
			t.Errorf("%s after %s: %s, want %s", c.spec, c.after, got, c.want)
		}
	}
}
