package crontab

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// field is one time field of a line.
type field struct {
	name     string
	min, max int
	names    []string // of min, min+1, …
}

var fields = [5]field{
	{name: "minute", min: 0, max: 59},
	{name: "hour", min: 0, max: 23},
	{name: "day of month", min: 1, max: 31},
	{name: "month", min: 1, max: 12, names: strings.Fields("jan feb mar apr may jun jul aug sep oct nov dec")},
	{name: "day of week", min: 0, max: 7, names: strings.Fields("sun mon tue wed thu fri sat")},
}

// values is the set that a field allows.
type values struct {
	set  [60]bool
	star bool // it begins with *: cron treats the field as unrestricted, and so does the scheduler
}

var macros = []string{"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"}

// translate returns an expression of the scheduler with the same due times.
func translate(schedule []string) (string, error) {
	if len(schedule) == 1 {
		switch macro := strings.ToLower(schedule[0]); {
		case macro == "@reboot":
			return "", errors.New("@reboot: a replica's start is not the machine's; use the machine's init, for example a systemd unit")
		case !slices.Contains(macros, macro):
			return "", fmt.Errorf("%s is unknown", clean(schedule[0], 40))
		default:
			return macro, nil
		}
	}
	var read [5]values
	for i, text := range schedule {
		var err error
		if read[i], err = fields[i].read(text); err != nil {
			return "", fmt.Errorf("%s: %w", fields[i].name, err)
		}
	}
	written := slices.Clone(schedule)
	for i := range written {
		problem := refused(i, schedule[i])
		if problem == nil {
			continue
		}
		// The scheduler is stricter than cron, for example with a step beyond the range: write a list. If that takes away a *
		// in front which decides something, leave the line out.
		written[i] = fields[i].list(read[i])
		switch partner := partners[i]; {
		case !read[i].star || written[i] == "*" || partner < 0 || read[partner].star:
		case partner >= dayOfMonth && fields[partner].full(read[partner]):
			written[partner] = "*"
		default:
			return "", errors.New(problemOf(problem))
		}
	}
	expression := strings.Join(written, " ")
	if _, err := jobs.ParseSchedule([]string{expression}, "UTC"); err != nil {
		return "", errors.New(problemOf(err))
	}
	return expression, nil
}

// partners are, by field, the other of the two of which one that begins with * decides for both: at jumps of clocks, and whether both days
// have to match. The month has none.
var partners = [5]int{1, 0, 4, -1, dayOfMonth}

const dayOfMonth = 2

// refused is why the scheduler does not take the text of a field.
func refused(i int, text string) error {
	alone := []string{"*", "*", "*", "*", "*"}
	alone[i] = text
	_, err := jobs.ParseSchedule([]string{strings.Join(alone, " ")}, "UTC")
	return err
}

func problemOf(err error) string {
	_, problem, _ := strings.Cut(err.Error(), `": `)
	return clean(problem, 200)
}

// read reads a field.
func (f field) read(text string) (values, error) {
	v := values{star: strings.HasPrefix(text, "*")}
	for item := range strings.SplitSeq(text, ",") {
		span, stepText, stepped := strings.Cut(item, "/")
		from, to := f.min, f.max
		if span != "*" {
			first, last, ranged := strings.Cut(span, "-")
			if stepped && !ranged {
				return v, fmt.Errorf("%s: crons differ in what a step behind one number means; write a range, as in %s-%d/%s", clean(item, 40), clean(first, 20), f.largest(), clean(stepText, 20))
			}
			var err error
			if from, err = f.number(first); err != nil {
				return v, err
			}
			to = from
			if ranged {
				if to, err = f.number(last); err != nil {
					return v, err
				}
			}
			if to < from {
				return v, fmt.Errorf("%s: the range is descending, which crons refuse or read differently; write it as two", clean(item, 40))
			}
		}
		step := 1
		if stepped {
			var err error
			if step, err = strconv.Atoi(stepText); err != nil || step < 1 || strings.HasPrefix(stepText, "+") {
				return v, fmt.Errorf("%s: the step is not a number from 1", clean(item, 40))
			}
		}
		for n := from; n <= to; {
			at := n
			if f.max == 7 {
				at = n % 7 // 0 and 7 are Sunday
			}
			v.set[at] = true
			if step > to-n {
				break
			}
			n += step
		}
	}
	return v, nil
}

func (f field) number(text string) (int, error) {
	for i, name := range f.names {
		if strings.EqualFold(text, name) {
			return f.min + i, nil
		}
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < f.min || n > f.max || strings.ContainsAny(text, "+-") {
		return 0, fmt.Errorf("%q is not one of %d to %d", clean(text, 40), f.min, f.max)
	}
	return n, nil
}

// largest is the last value that is not an alias of the first.
func (f field) largest() int {
	if f.max == 7 {
		return 6
	}
	return f.max
}

func (f field) full(v values) bool {
	return !slices.Contains(v.set[f.min:f.largest()+1], false)
}

// list formats all values; those of a field that begins with * and allows all are *.
func (f field) list(v values) string {
	if v.star && f.full(v) {
		return "*"
	}
	var all []string
	for n, in := range v.set {
		if in {
			all = append(all, strconv.Itoa(n))
		}
	}
	return strings.Join(all, ",")
}
