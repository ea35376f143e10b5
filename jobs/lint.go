package jobs

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// maxSpec is how many bytes an expression may have.
const maxSpec = 256

var macros = map[string]string{
	"@yearly":   "0 0 0 1 1 *",
	"@annually": "0 0 0 1 1 *",
	"@monthly":  "0 0 0 1 * *",
	"@weekly":   "0 0 0 * * 0",
	"@daily":    "0 0 0 * * *",
	"@midnight": "0 0 0 * * *",
	"@hourly":   "0 0 * * * *",
}

// dueBy is what one expression says: a rule, or, if that is nil, a moment.
type dueBy struct {
	rule   rule
	moment time.Time
}

// parseSpec reads one expression. Its errors name the field and say what to do.
func parseSpec(spec string, zone *time.Location, s seed) (dueBy, error) {
	if err := lintText(spec); err != nil {
		return dueBy{}, err
	}
	words := strings.Fields(spec)
	if len(words) > 0 && words[0] == "@at" {
		if len(words) != 2 {
			return dueBy{}, errors.New("@at: exactly one time must follow, as in @at 2026-12-24T18:00:00+01:00")
		}
		at, err := parseAt(words[1])
		return dueBy{moment: at}, err
	}
	r, err := parseRule(words, zone, s)
	return dueBy{rule: r}, err
}

func parseRule(words []string, zone *time.Location, s seed) (rule, error) {
	if len(words) == 0 {
		return nil, errors.New("the expression is empty; leave the schedule out for a job that runs on demand only")
	}
	if words[0] == "@every" {
		if len(words) != 2 {
			return nil, errors.New("@every: exactly one duration must follow, as in @every 5m")
		}
		return parseEvery(words[1])
	}
	if words[0][0] == '@' {
		expanded, ok := macros[words[0]]
		switch {
		case words[0] == "@reboot":
			return nil, errors.New("@reboot is not supported: replicas come and go; run the job on demand instead")
		case !ok:
			return nil, fmt.Errorf("unknown macro %s; known are @yearly @monthly @weekly @daily @hourly, @every and @at", words[0])
		case len(words) > 1:
			return nil, fmt.Errorf("%s: nothing may follow it", words[0])
		}
		words = strings.Fields(expanded)
	}
	return parseFields(words, zone, s)
}

// lintText refuses what must not even be looked at as fields.
func lintText(spec string) error {
	if len(spec) > maxSpec {
		return fmt.Errorf("the expression has %d bytes, at most %d are allowed; use several schedules", len(spec), maxSpec)
	}
	for _, r := range spec {
		if r != '\t' && (r < ' ' || r > '~') {
			return fmt.Errorf("character %U does not belong in an expression; use plain blanks, digits, letters and * ? , - / # ( )", r)
		}
	}
	if upper := strings.ToUpper(strings.TrimSpace(spec)); strings.HasPrefix(upper, "TZ=") || strings.HasPrefix(upper, "CRON_TZ=") {
		return errors.New("a zone does not stand in the expression; use timezone: for it")
	}
	return nil
}

func parseFields(words []string, zone *time.Location, s seed) (rule, error) {
	switch len(words) {
	case 5:
		words = append([]string{"0"}, words...)
	case 6:
	case 7:
		return nil, errors.New("7 fields: a field for the year (Quartz) is not supported; remove it")
	default:
		return nil, fmt.Errorf("5 fields are needed (minute, hour, day of month, month, day of week), or 6 with seconds first; found %d", len(words))
	}
	var problems []error
	var read [len(fields)]chosen
	canonical := make([]string, len(words))
	for i, word := range words {
		var err error
		if read[i], err = fields[i].read(word, s); err != nil {
			problems = append(problems, err)
		}
		canonical[i] = fields[i].canonical(read[i])
	}
	if strings.Contains(words[dayOfMonth], "?") && numbersDays(words[dayOfWeek]) {
		problems = append(problems, errors.New(
			"day of week: ? in day of month comes from Quartz, where 1 is Sunday; here 1 is Monday: name the days (MON-FRI), or write * for ?"))
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	spec, err := parseCanonical(strings.Join(canonical, " "))
	if err != nil {
		return nil, err
	}
	c := newWallClock(spec, read[dayOfMonth], read[dayOfWeek])
	alone := monthDays{dom: c.days.dom, days: c.days.days}
	alone.days.nth = [7]uint8{}
	switch {
	case c.days.everDue(spec.Month):
	case alone.everDue(spec.Month):
		return nil, errors.New("day of month and day of week: a day has to match both, as one of them begins with *, and none does, it would never fire")
	default:
		return nil, errors.New("day of month: no such day in these months, it would never fire")
	}
	if read[minute].star || read[hour].star {
		return running{c, zone}, nil
	}
	return fixed{c, zone}, nil
}

// numbersDays reports whether a weekday is given as a number; the number of a step is none, nor is that behind #.
func numbersDays(text string) bool {
	for item := range strings.SplitSeq(text, ",") {
		values, _, _ := strings.Cut(item, "/")
		values, _, _ = strings.Cut(values, "#")
		if strings.ContainsAny(values, "0123456789") {
			return true
		}
	}
	return false
}

var parser = cron.NewParser(cron.Second | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)

// parseCanonical hands the cleaned fields to the parser. It panics on some inputs; none of them
// gets here, but a typing error in a file must never be able to end all replicas.
func parseCanonical(spec string) (s *cron.SpecSchedule, err error) {
	defer func() {
		if p := recover(); p != nil {
			s, err = nil, fmt.Errorf("the expression cannot be parsed: %v", p)
		}
	}()
	parsed, err := parser.Parse(spec)
	if err != nil {
		return nil, fmt.Errorf("the expression cannot be parsed: %w", err)
	}
	s, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return nil, fmt.Errorf("the expression cannot be parsed: unexpected %T", parsed)
	}
	return s, nil
}
