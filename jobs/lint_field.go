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
	minute     = 1
	hour       = 2
	dayOfMonth = 3
	dayOfWeek  = 5
)

// chosen is what a field allows.
type chosen struct {
	set  uint64 // bit n: the number n
	star bool   // the field begins with * or ?: it is unrestricted
	days specialDays
}

// read checks one field.
func (f *field) read(text string, s seed) (chosen, error) {
	c := chosen{star: text[0] == '*' || text[0] == '?'}
	for item := range strings.SplitSeq(text, ",") {
		if err := f.add(&c, item, s); err != nil {
			return c, fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return c, nil
}

// canonical writes a field in the form that no parser can misread: "*" for all values, or numbers in rising order with commas
// between. A list of all numbers stays one if the field is restricted; of special days alone nothing else is left to write.
func (f *field) canonical(c chosen) string {
	if c.star && c.set == f.all() || c.set == 0 {
		return "*"
	}
	var numbers []string
	for n := range each(c.set) {
		numbers = append(numbers, strconv.Itoa(n))
	}
	return strings.Join(numbers, ",")
}

// all is the set of all values.
func (f *field) all() uint64 { return 1<<(f.max+1) - 1<<f.min }

// add puts the values of one item of the list into c.
func (f *field) add(c *chosen, item string, s seed) error {
	if item == "" {
		return fmt.Errorf("an item of the list is empty; remove the extra comma")
	}
	if hashed(item) {
		return f.addHashed(c, item, s)
	}
	if special, err := f.addSpecial(c, item); special || err != nil {
		return err
	}
	values, stepText, stepped := strings.Cut(item, "/")
	from, to := f.min, f.max
	var err error
	switch first, last, ranged := strings.Cut(values, "-"); {
	case values == "*" || values == "?":
	case strings.ContainsAny(values, "*?"):
		return fmt.Errorf("%q: only a step may stand beside %c, as in %[2]c/5", item, values[strings.IndexAny(values, "*?")])
	default:
		if from, err = f.value(first); err != nil {
			return err
		}
		switch {
		case ranged:
			if to, err = f.value(last); err != nil {
				return err
			}
		case !stepped:
			to = from
		}
	}
	length := to - from // of the range; 22-2 goes on behind the largest value
	if length < 0 {
		length += f.size()
	}
	step := 1
	if stepped {
		if step, err = stepOf(item, stepText); err != nil {
			return err
		}
		if step > length {
			return fmt.Errorf("%q: step %s is larger than the range, so only %d would be left; write %[3]d, or a smaller step", item, stepText, from)
		}
	}
	for i := 0; i <= length; i += step {
		c.set |= 1 << f.wrap(from+i)
	}
	return nil
}

func (f *field) size() int { return f.max - f.min + 1 }

// wrap is the value that n stands for where n may be beyond the largest one.
func (f *field) wrap(n int) int { return f.min + (n-f.min)%f.size() }

// stepOf reads the number behind the / of an item. One that no range can have is as large as a number can be.
func stepOf(item, text string) (int, error) {
	if !digits(text) {
		return 0, fmt.Errorf("%q: the step after / must be a number", item)
	}
	step, err := strconv.Atoi(text)
	if step == 0 && err == nil {
		return 0, fmt.Errorf("%q: the step must be at least 1", item)
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
	case strings.Contains(upper, "~"):
		return "~ is a random number in other crons; write H, which the job's name chooses and all replicas agree on"
	case strings.Contains(upper, "#"):
		return "# counts weekdays; write it in the day of week, as in FRI#2"
	case f.weekdays() && upper == "L":
		return "L needs its weekday, as in FRIL for the last Friday of a month; for the last day of a month write it in the day of month"
	case f.weekdays() && strings.HasSuffix(upper, "W"):
		return "W belongs to the day of month, as in 15W"
	}
	return ""
}

func (f *field) weekdays() bool { return f.max == 6 }

func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}
