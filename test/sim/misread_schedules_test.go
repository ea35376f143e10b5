package sim

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// misreadSchedules are ways to read expressions of fields, and moments, wrong.
var misreadSchedules = map[string]func(*jobs.Set){
	"takes the day before the last for it": eachField(dayOfMonthField, `(^|,)L(-\d+)?($|,)`, func(item []string) string {
		n, _ := strconv.Atoi(strings.TrimPrefix(item[2], "-"))
		return fmt.Sprintf("%sL-%d%s", item[1], min(n+1, 30), item[3])
	}),
	"moves no day to a weekday":             eachField(dayOfMonthField, `([0-9L])W`, func(item []string) string { return item[1] }),
	"counts weekdays of a month from 0":     eachField(dayOfWeekField, `#(\d)`, func(item []string) string { n, _ := strconv.Atoi(item[1]); return fmt.Sprint("#", 1+n%5) }),
	"takes H for the first value":           eachSpec(func(f []string) { hashesNothing(f) }),
	"has hours that begin with * skip none": eachField(hourField, `^\*(/\d+)?$`, func(item []string) string { return "0-23" + item[1] }),
	"never moves its clocks":                eachJob(func(j *jobs.Job) { j.Timezone = standing[j.Timezone] }),
	"takes @at for an hour later":           eachMoment(func(at time.Time) time.Time { return at.Add(time.Hour) }),
	"makes up for an @at that has passed":   eachMoment(func(at time.Time) time.Time { return at.Add(8 * time.Second) }),
}

// misreadDays are ways to read fields of days wrong, as worlds show in which days decide.
var misreadDays = map[string]func(*jobs.Set){
	"takes the fourth Friday for the last": eachField(dayOfWeekField, `([A-Z])L$`, func(item []string) string { return item[1] + "#4" }),
	"asks for the day of month alone": eachSpec(func(f []string) {
		if f[dayOfMonthField][0] != '*' {
			f[dayOfWeekField] = "*"
		}
	}),
	"takes */2 for a restriction": eachField(dayOfMonthField, `^\*/2$`, func([]string) string { return "1-31/2" }),
}

// dated is a world in which days decide what is due.
func dated(seed uint64) *plan {
	p := small(seed, nil)
	p.drawDay(newDraw(seed, "day"))
	p.Length = 12 * time.Second
	for i := range 9 {
		name := fmt.Sprint("j", i)
		d := keyed(seed, "days of "+name, 0)
		mid := p.began().Add(d.between(time.Second, p.Length)).Truncate(time.Second)
		wanted := []func(f fields) bool{
			func(f fields) bool { return strings.HasSuffix(f.dow.text, "L") },
			func(f fields) bool { return f.dom.text == "*/2" && !f.dow.star() },
			func(f fields) bool { return !f.dom.star() && !f.dow.star() },
		}[i%3]
		f := drawFields(d, p.Zone, mid, name, 0)
		for !wanted(f) {
			f = drawFields(d, p.Zone, mid, name, 0)
		}
		j := small(seed, map[string]rule{name: f.walk(p.began().Add(-walkedBefore), p.began().Add(walkedAfter))}).Jobs[name]
		j.Timezone = p.Zone.name
		p.Jobs[name] = j
	}
	return p
}

// What days say is kept to: either day field is enough if both are restricted, and one that begins with * is not.
func TestDaysAreKeptTo(t *testing.T) {
	t.Parallel()
	due := 0
	for seed := range uint64(30) {
		w := simulate(t, dated(seed+1), nil)
		for _, v := range w.violations {
			t.Errorf("seed %d: %s", seed+1, v.text)
		}
		due += w.counted["triggers"]
	}
	if due < 50 {
		t.Errorf("%d were due", due)
	}
}

// standing are zones whose clocks are as those of others when 2000 begins, and stay so.
var standing = map[string]string{
	"Asia/Kathmandu": "Asia/Kathmandu", "Europe/Berlin": "Etc/GMT-1", "America/New_York": "Etc/GMT+5", "America/Sao_Paulo": "Etc/GMT+2", "Australia/Lord_Howe": "Etc/GMT-11",
}

// The places of fields.
const (
	hourField       = 2
	dayOfMonthField = 3
	dayOfWeekField  = 5
)

// eachSpec changes expressions of six fields.
func eachSpec(change func(fields []string)) func(*jobs.Set) {
	return eachJob(func(j *jobs.Job) {
		j.Schedules = slices.Clone(j.Schedules)
		for i, spec := range j.Schedules {
			if f := strings.Fields(spec); len(f) == 6 {
				change(f)
				j.Schedules[i] = strings.Join(f, " ")
			}
		}
	})
}

func eachField(n int, item string, instead func([]string) string) func(*jobs.Set) {
	re := regexp.MustCompile(item)
	return eachSpec(func(f []string) {
		f[n] = re.ReplaceAllStringFunc(f[n], func(text string) string { return instead(re.FindStringSubmatch(text)) })
	})
}

var hashed = regexp.MustCompile(`^H(\((\d+)-\d+\))?`)

func hashesNothing(fields []string) {
	for n, f := range fields {
		fields[n] = hashed.ReplaceAllStringFunc(f, func(text string) string {
			if in := hashed.FindStringSubmatch(text); in[2] != "" {
				return in[2]
			} else if n == dayOfMonthField {
				return "1"
			}
			return "0"
		})
	}
}

func eachMoment(change func(time.Time) time.Time) func(*jobs.Set) {
	return eachJob(func(j *jobs.Job) {
		j.Schedules = slices.Clone(j.Schedules)
		for i, spec := range j.Schedules {
			if text, is := strings.CutPrefix(spec, "@at "); is {
				at, err := time.Parse(time.RFC3339, text)
				if err != nil {
					panic(err) // drawSchedules wrote it
				}
				j.Schedules[i] = "@at " + change(at).Format(time.RFC3339)
			}
		}
	})
}
