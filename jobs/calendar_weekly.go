package jobs

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// hours are a part of the week, in minutes since Sunday, 0:00: from on, and before until.
type hours struct{ from, until int }

const (
	dayMinutes  = 24 * 60
	weekMinutes = 7 * dayMinutes
)

var weekdays = fields[dayOfWeek].names

// readWeekly reads an entry of Calendar.Weekly.
func readWeekly(text string) ([]hours, error) {
	words := strings.Fields(text)
	if len(words) == 0 || len(words) > 2 {
		return nil, fmt.Errorf("%.60q is not weekdays and hours; write it as in MON-FRI 09:00-17:00, and SAT,SUN for whole days", text)
	}
	days, err := readWeekdays(words[0])
	if err != nil {
		return nil, err
	}
	from, until := 0, dayMinutes
	if len(words) == 2 {
		if from, until, err = readHours(words[1]); err != nil {
			return nil, err
		}
	}
	var all []hours
	for weekday := range 7 {
		if !days[weekday] {
			continue
		}
		start := weekday * dayMinutes
		all = append(all, hours{start + from, min(start+until, weekMinutes)})
		if over := start + until - weekMinutes; over > 0 { // Saturday's go on into Sunday
			all = append(all, hours{0, over})
		}
	}
	return all, nil
}

func readWeekdays(text string) (days [7]bool, err error) {
	if text == "*" {
		return [7]bool{true, true, true, true, true, true, true}, nil
	}
	for item := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(item, "-")
		if !isRange {
			last = first
		}
		from, to := slices.Index(weekdays, strings.ToUpper(first)), slices.Index(weekdays, strings.ToUpper(last))
		if from < 0 || to < 0 {
			return days, fmt.Errorf("%.40q is not a weekday; write MON, a range as MON-FRI, a list as SAT,SUN, or * for every day", item)
		}
		for d := from; ; d = (d + 1) % 7 {
			days[d] = true
			if d == to {
				break
			}
		}
	}
	return days, nil
}

var hoursText = regexp.MustCompile(`^(\d{1,2}):(\d\d)-(\d{1,2}):(\d\d)$`)

// readHours reads "09:00-17:00", as minutes of the day; until is more than a day where the hours go on into the next one.
func readHours(text string) (from, until int, err error) {
	const hint = "write them as in 09:00-17:00, up to 24:00"
	m := hoursText.FindStringSubmatch(text)
	if m == nil {
		return 0, 0, fmt.Errorf("%.40q are not hours; %s", text, hint)
	}
	var n [5]int
	for i := 1; i < len(m); i++ {
		n[i], _ = strconv.Atoi(m[i])
	}
	from, until = n[1]*60+n[2], n[3]*60+n[4]
	switch {
	case n[2] > 59 || n[4] > 59 || from >= dayMinutes || until > dayMinutes:
		return 0, 0, fmt.Errorf("%.40q are not hours of a day; %s", text, hint)
	case from == until:
		return 0, 0, errors.New("the hours end when they start; for whole days leave them out, or write 00:00-24:00")
	case until < from:
		until += dayMinutes
	}
	return from, until, nil
}

// mergeHours sorts hours and joins those that touch or overlap. It changes the slice.
func mergeHours(all []hours) []hours {
	slices.SortFunc(all, func(a, b hours) int { return a.from - b.from })
	merged := all[:0]
	for _, h := range all {
		if last := len(merged) - 1; last >= 0 && h.from <= merged[last].until {
			merged[last].until = max(merged[last].until, h.until)
		} else {
			merged = append(merged, h)
		}
	}
	return merged
}
