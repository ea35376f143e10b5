package jobs

import (
	"fmt"
	"strconv"
	"strings"
)

// field is one place of a cron expression.
type field struct {
	name     string
	min, max int
	names    []string // of min, min+1, …
}

var fields = [6]field{
	{name: "second", min: 0, max: 59},
	{name: "minute", min: 0, max: 59},
	{name: "hour", min: 0, max: 23},
	{name: "day of month", min: 1, max: 31},
	{name: "month", min: 1, max: 12, names: strings.Fields("JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC")},
	{name: "day of week", min: 0, max: 6, names: strings.Fields("SUN MON TUE WED THU FRI SAT")},
}

const (
	dayOfMonth = 3
	dayOfWeek  = 5
)

// canonical checks one field and writes it in the form that no parser can misread: "*", or numbers
// in rising order with commas between.
func (f *field) canonical(text string) (string, error) {
	var (
		set  [60]bool
		star bool
	)
	for item := range strings.SplitSeq(text, ",") {
		all, err := f.add(&set, item)
		if err != nil {
			return "", fmt.Errorf("%s: %w", f.name, err)
		}
		star = star || all
	}
	if star {
		return "*", nil
	}
	var numbers []string
	for n, in := range set {
		if in {
			numbers = append(numbers, strconv.Itoa(n))
		}
	}
	return strings.Join(numbers, ","), nil
}

// add puts the values of one item of the list into set; all reports a plain star.
func (f *field) add(set *[60]bool, item string) (all bool, err error) {
	if item == "" {
		return false, fmt.Errorf("an item of the list is empty; remove the extra comma")
	}
	values, stepText, stepped := strings.Cut(item, "/")
	from, to := f.min, f.max
	switch first, last, ranged := strings.Cut(values, "-"); {
	case values == "*" || values == "?":
		all = true
	case strings.ContainsAny(values, "*?"):
		return false, fmt.Errorf("%q: only a step may stand beside %c, as in %[2]c/5", item, values[strings.IndexAny(values, "*?")])
	default:
		if from, err = f.value(first); err != nil {
			return false, err
		}
		switch {
		case ranged:
			if to, err = f.value(last); err != nil {
				return false, err
			}
		case !stepped:
			to = from
		}
	}
	size := f.max - f.min + 1
	length := to - from // of the range; 22-2 goes on behind the largest value
	if length < 0 {
		length += size
	}
	step := 1
	if stepped {
		if step, err = f.step(item, stepText, from, length); err != nil {
			return false, err
		}
	}
	for i := 0; i <= length; i += step {
		set[f.min+(from-f.min+i)%size] = true
	}
	return all && step == 1, nil
}

func (f *field) step(item, text string, from, length int) (int, error) {
	if !digits(text) {
		return 0, fmt.Errorf("%q: the step after / must be a number", item)
	}
	step, err := strconv.Atoi(text)
	switch {
	case step == 0 && err == nil:
		return 0, fmt.Errorf("%q: the step must be at least 1", item)
	case step > length || err != nil:
		return 0, fmt.Errorf("%q: step %s is larger than the range, so only %d would be left; write %[3]d, or a smaller step", item, text, from)
	}
	return step, nil
}

// value reads one number or name.
func (f *field) value(text string) (int, error) {
	for i, name := range f.names {
		if strings.EqualFold(text, name) {
			return f.min + i, nil
		}
	}
	top := f.max
	if f.weekdays() {
		top = 7
	}
	if digits(text) {
		n, err := strconv.Atoi(text)
		if err != nil || n < f.min || n > top {
			return 0, fmt.Errorf("%s is out of range %d–%d", text, f.min, top)
		}
		return n, nil
	}
	if text == "" {
		return 0, fmt.Errorf("a range or step has no start or end; write both, as in %d-%d", f.min, f.max)
	}
	if why := f.foreign(strings.ToUpper(text)); why != "" {
		return 0, fmt.Errorf("%q is not supported: %s", text, why)
	}
	if len(f.names) > 0 {
		return 0, fmt.Errorf("%q is neither a number %d–%d nor a name %s–%s", text, f.min, top, f.names[0], f.names[len(f.names)-1])
	}
	return 0, fmt.Errorf("%q is not a number; write %d–%d without a sign", text, f.min, top)
}

// foreign explains what other schedulers would read here, where upper is, in capitals.
func (f *field) foreign(upper string) string {
	switch {
	case strings.HasPrefix(upper, "H"):
		return "H is Jenkins'; choose a number"
	case strings.Contains(upper, "#"):
		return "# is Quartz's; give the days of the month as a range and let the job check the weekday"
	case f.max == 31 && strings.ContainsAny(upper, "LW"):
		return "L and W are Quartz's; for the last day of a month run on 28-31 and let the job check, or run on day 1"
	case f.weekdays() && strings.HasSuffix(upper, "L"):
		return "L is Quartz's; name the weekday and let the job check the date"
	}
	return ""
}

func (f *field) weekdays() bool { return f.max == 6 }

func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}
