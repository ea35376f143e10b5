package jobs

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// plainly is what an expression with H has become: each field as numbers.
func plainly(t *testing.T, name string, place int, spec string) string {
	t.Helper()
	var text []string
	words := strings.Fields(spec)
	for i, word := range words {
		f := &fields[i+6-len(words)]
		c, err := f.read(word, seed{&name, place})
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, f.canonical(c))
	}
	return strings.Join(text, " ")
}

// These numbers decide when people's jobs are due, and stand in docs/schedules.md: they never change. Another program
// than this one has computed them.
func TestHashedNumbersStayAsTheyAre(t *testing.T) {
	for _, c := range []struct {
		name  string
		place int
		spec  string
		want  string
	}{
		{"nightly-backup", 0, "H H H H H H", "18 20 3 17 10 0"},
		{"nightly-backup", 1, "H H H H H H", "58 42 11 19 6 4"},
		{"Nightly-Backup", 0, "H H H H H H", "14 23 10 1 3 1"},
		{"hourly-mail", 0, "H H H H H H", "4 14 17 10 5 4"},
		{"nightly-backup", 0, "H H * * *", "20 3 * * *"},
		{"nightly-backup", 0, "H(0-29) H(9-17) H/7 * *", "20 12 3,10,17,24 * *"},
		{"nightly-backup", 0, "* * H(1-28) * *", "* * 17 * *"},
		{"nightly-backup", 0, "h/15 * * * *", "5,20,35,50 * * * *"},
		{"nightly-backup", 1, "H(0-29)/10 * * * *", "2,12,22 * * * *"},
		{"nightly-backup", 1, "H,0 * * * H(7-7)", "0,42 * * * 0"},
		{"a", 0, "H/15,H(0-29) H * * H", "10,25,40,55 11 * * 1"},
	} {
		if got := plainly(t, c.name, c.place, c.spec); got != c.want {
			t.Errorf("%s of %s, at place %d: %s, want %s", c.spec, c.name, c.place, got, c.want)
		}
	}
}

func TestHashedSchedulesAreDue(t *testing.T) {
	job := Job{Schedule: "H H * * *", Schedules: []string{"H H * * *"}, Timezone: "UTC"}
	s, err := job.Compile("nightly-backup")
	if err != nil {
		t.Fatal(err)
	}
	due, _ := s.Between(monday, monday.Add(day), 10)
	if got := inWords(due, time.UTC, "15:04"); got != "03:20 11:42" { // the place counts
		t.Errorf("due at %s", got)
	}
	if _, err := ParseSchedule(job.Specs(), "UTC"); !errors.Is(err, ErrInvalid) {
		t.Errorf("without a job: %v", err)
	}
	// H is restricted, as a number is: here one of the day fields is enough.
	s, err = Job{Schedule: "0 0 H * H"}.Compile("nightly-backup")
	if err != nil {
		t.Fatal(err)
	}
	due, _ = s.Between(monday, monday.Add(21*day), 10)
	if got := inWords(due, time.UTC, "2"); got != "7 14 17 21" {
		t.Errorf("days %s", got)
	}
	// It is fixed at jumps of clocks.
	s, err = Job{Schedule: "H H(1-1) * * *", Timezone: "America/New_York"}.Compile("nightly-backup")
	if err != nil {
		t.Fatal(err)
	}
	if due, _ = s.Between(monday.Add(153*day), monday.Add(154*day), 10); len(due) != 1 {
		t.Errorf("on the night when the clock goes back: %v", due)
	}
}

// Each number of a range is chosen for some job, and each about as often.
func TestHashSpreadsJobs(t *testing.T) {
	for i := range fields {
		counts := map[int]int{}
		n := fields[i].size()
		if i == dayOfMonth {
			n = lastHashed
		}
		for job := range 100 * n {
			name := fmt.Sprintf("job-%d", job)
			var c chosen
			if err := fields[i].addHashed(&c, "H", seed{&name, 0}); err != nil {
				t.Fatal(err)
			}
			for number := range each(c.set) {
				counts[number]++
			}
		}
		for number, count := range counts {
			if count < 60 || count > 150 || number < fields[i].min || len(counts) != n {
				t.Errorf("%s: %d is chosen %d times of %d, want about 100; %d numbers are, want %d", fields[i].name, number, count, 100*n, len(counts), n)
			}
		}
	}
}

// Whether an expression is ever due may depend on the number that H is: here on a month with a 31st. The set says what Compile says.
func TestValidateKnowsNameAndPlace(t *testing.T) {
	for name, want := range map[string]string{
		"nightly-backup": "jobs.nightly-backup.schedules[0]: day of month: no such day in these months, it would never fire", // October, and June
		"hourly-mail":    "",                                                                                                 // October
	} {
		job := Job{Schedule: "0 0 31 H *", Handler: says("h")}
		if want != "" {
			job.Schedules = []string{"0 0 31 H *"}
		}
		err := Set{Jobs: map[string]Job{name: job}}.Validate()
		if text(err) != want {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
		if _, compiled := job.Compile(name); (compiled == nil) != (err == nil) {
			t.Errorf("%s: compiled: %v, valid: %v", name, compiled, err)
		}
	}
}

// The order of a job's expressions decides when those with H are due, and so it counts; that of others does not.
func TestThePlaceOfHCountsInHashes(t *testing.T) {
	hash := func(specs ...string) [2]string {
		j := Job{Schedules: specs, Handler: says("h")}
		return [2]string{j.Hash(), j.ScheduleHash()}
	}
	different := map[[2]string]string{}
	for _, specs := range [][]string{{"H * * * *"}, {"H * * * *", "H * * * *"}, {"@daily", "H * * * *"}, {"H * * * *", "@daily"}, {"@daily", "0 0 * * H(1-5)"}} {
		h := hash(specs...)
		if other, taken := different[h]; taken {
			t.Errorf("%q has the hash of %s", specs, other)
		}
		different[h] = fmt.Sprintf("%q", specs)
	}
	for _, spec := range []string{"H * * * *", "0 0 1,H * *", "0 0 * * h(1-5)/2"} {
		if hash("@daily", spec) == hash(spec, "@daily") {
			t.Errorf("the place of %s does not count", spec)
		}
	}
	hash(", ,, 1,") // no expression at all, which Validate says
	if diff := cmp.Diff(hash("@hourly", "0 0 * MAR THU"), hash("0 0 * MAR THU", "@hourly")); diff != "" {
		t.Errorf("the order counts without H:\n%s", diff)
	}
}
