package crontab

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// manual is cron's rule, written down once more, from its manual: a time is due if minute, hour and
// month match, and both days if one of the fields starts with *, else either.
func manual(t *testing.T, schedule []string) func(at time.Time) bool {
	t.Helper()
	var read [5]values
	for i := range read {
		var err error
		if read[i], err = fields[i].read(schedule[i]); err != nil {
			t.Fatal(err)
		}
	}
	both := schedule[2][0] == '*' || schedule[4][0] == '*'
	return func(at time.Time) bool {
		if !read[0].set[at.Minute()] || !read[1].set[at.Hour()] || !read[3].set[int(at.Month())] {
			return false
		}
		dom, dow := read[2].set[at.Day()], read[4].set[int(at.Weekday())]
		return dom && dow || !both && (dom || dow)
	}
}

// due returns the scheduler's next times of a line.
func due(t *testing.T, expression string, from time.Time, n int) (times []time.Time) {
	t.Helper()
	s, err := jobs.ParseSchedule([]string{expression}, "UTC")
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	for at := s.Next(from); !at.IsZero() && len(times) < n; at = s.Next(at) {
		times = append(times, at)
	}
	return times
}

var start = time.Date(2027, time.February, 26, 23, 58, 30, 0, time.UTC)

// A converted random line is due as cron's manual and another parser say. The two differ where a day field starts with
// * and goes on, which the second comparison leaves out.
func TestTimesAreCrons(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	compared, followed := 0, 0
	for compared < 200 || followed < 200 {
		line := randomLine(rnd)
		schedule := strings.Fields(line)
		expression, err := translate(schedule)
		if err != nil {
			continue // never due, or a * that could not be kept
		}
		got := due(t, expression, start, 12)
		if starred := strings.HasPrefix(schedule[2], "*/") || strings.HasPrefix(schedule[4], "*/"); !starred {
			compared++
			other, err := cron.ParseStandard(line)
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			at := start
			for i := range got {
				at = other.Next(at)
				if !at.Equal(got[i]) {
					t.Errorf("%s became %s: due %v, the other parser says %v", line, expression, got[i], at)
					break
				}
			}
		}
		followed++
		follows(t, schedule, expression, got)
	}
}

// follows walks minute by minute through at most four months and compares.
func follows(t *testing.T, schedule []string, expression string, got []time.Time) {
	t.Helper()
	isDue := manual(t, schedule)
	at := start.Truncate(time.Minute)
	end := start.AddDate(0, 4, 0)
	for _, want := range got {
		for {
			at = at.Add(time.Minute)
			if at.After(end) {
				return
			}
			if isDue(at) {
				break
			}
		}
		if !at.Equal(want) {
			t.Errorf("%v became %s: due %v, the manual says %v", schedule, expression, want, at)
			return
		}
	}
}

// Lines that parsers are known to read differently.
func TestNastyTimes(t *testing.T) {
	for _, line := range []string{
		"0 0 * * 7", "0 0 * * 0-7", "0 0 * * 5-7", "0 0 1 * 7", "0 12 13 * FRI", "0 0 1-31 * 1", "0 0 1,2-31 * mon",
		"0 0 * * */2", "0 0 */2 * *", "0 0 */1 * 1", "0 0 *,3 * 1", "0 0 3,1-31/1 * sat", "0 0 3 * *,1", "*/90 * * * *", "59-59/7 23 * * *",
		"0-59/61 * * * *", "0 0 */2 * 1", "0 0 */10 * 1-5", "0 0 13 * */2", "0 0 */40 * */2", "0 0 */40 * 0-6", "0 0 1-31/40 * 1", "0 0 *,5 * 1", "0 0 5,* * 1", "1-59/2 */2 * JAN,DEC sun", "0 0 29 2 *", "5,5,5 * * * *", "0 0 */2 * 0-6", "00 05 * * *", "0 0 31 */3 *", "* * 30 1-12/2 *",
	} {
		schedule := strings.Fields(line)
		expression, err := translate(schedule)
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		follows(t, schedule, expression, due(t, expression, start, 30))
	}
	for macro, like := range map[string]string{"@yearly": "0 0 1 1 *", "@Annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *"} {
		expression, err := translate([]string{macro})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := fmt.Sprint(due(t, expression, start, 5)), fmt.Sprint(due(t, like, start, 5)); got != want {
			t.Errorf("%s is due %s, want %s", macro, got, want)
		}
	}
}

// randomLine writes five fields as people do: mostly stars and numbers, some lists, ranges and steps.
func randomLine(rnd *rand.Rand) string {
	var line []string
	for i, f := range fields {
		top := f.largest()
		one := func() string {
			n := f.min + rnd.IntN(top-f.min+1)
			if len(f.names) > 0 && rnd.IntN(3) == 0 {
				return f.names[n-f.min]
			}
			return fmt.Sprint(n)
		}
		span := func() string {
			a := f.min + rnd.IntN(top-f.min)
			return fmt.Sprintf("%d-%d", a, a+1+rnd.IntN(top-a))
		}
		switch kind := rnd.IntN(10); {
		case kind < 4 && i > 1, kind < 2:
			line = append(line, "*")
		case kind < 7:
			line = append(line, one())
		case kind == 7:
			line = append(line, span()+","+one())
		case kind == 8:
			line = append(line, fmt.Sprintf("*/%d", 2+rnd.IntN(5)))
		default:
			line = append(line, fmt.Sprintf("%s/%d", span(), 1+rnd.IntN(4)))
		}
	}
	return strings.Join(line, " ")
}
