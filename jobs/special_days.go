package jobs

import (
	"fmt"
	"strconv"
	"strings"
)

// addSpecial puts an item with L, W or # into c; special reports whether it is one, in the field that has them.
func (f *field) addSpecial(c *chosen, item string) (special bool, err error) {
	upper := strings.ToUpper(item)
	switch {
	case f.max == 31 && strings.ContainsAny(upper, "LW"):
		return true, f.addDayOfMonth(c, item, upper)
	case f.weekdays() && strings.Contains(item, "#"):
		return true, f.addNth(c, item)
	case f.weekdays() && len(upper) > 1 && strings.HasSuffix(upper, "L"):
		weekday, err := f.value(item[:len(item)-1])
		if err == nil {
			c.days.nth[weekday%7] |= 1 << lastOfMonth
		}
		return true, err
	}
	return false, nil
}

// addDayOfMonth reads L, L-3, LW, L-3W and 15W.
func (f *field) addDayOfMonth(c *chosen, item, upper string) error {
	day, nearest := strings.CutSuffix(upper, "W")
	set := &c.days.nearest
	if before, fromEnd := strings.CutPrefix(day, "L"); fromEnd {
		set = &c.days.last
		if nearest {
			set = &c.days.nearestLast
		}
		if before == "" {
			*set |= 1
			return nil
		}
		n, err := strconv.Atoi(strings.TrimPrefix(before, "-"))
		if before[0] != '-' || !digits(before[1:]) {
			return fmt.Errorf("%q: behind L may stand how many days before the last one, and W, as in L-3 and LW", item)
		}
		if err != nil || n < 1 || n > 30 {
			return fmt.Errorf("%q: L-1 to L-30 are days before the last one", item)
		}
		*set |= 1 << n
		return nil
	}
	if !nearest || !digits(day) {
		return fmt.Errorf("%q: L is the last day of the month, and W stands behind one day, as in L-3, 15W and LW", item)
	}
	n, err := f.value(day)
	if err == nil {
		*set |= 1 << n
	}
	return err
}

// addNth reads FRI#2.
func (f *field) addNth(c *chosen, item string) error {
	day, nth, _ := strings.Cut(item, "#")
	weekday, err := f.value(day)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(nth)
	if err != nil || !digits(nth) || n < 1 || n > 5 {
		return fmt.Errorf("%q: behind # stands 1 to 5, as a month has a weekday that often; for the last one write %sL", item, strings.ToUpper(day))
	}
	c.days.nth[weekday%7] |= 1 << n
	return nil
}
