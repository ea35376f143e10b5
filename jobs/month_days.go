package jobs

import (
	"math/bits"
	"time"
)

// monthDays says which days of a month are due.
type monthDays struct {
	dom, dow uint64 // days of the month, and weekdays, by number
	days     specialDays
	both     bool // a day has to match both fields, as one of them begins with *
}

// specialDays are days whose number depends on the month.
type specialDays struct {
	last        uint64   // bit n: n days before the last one (L, L-n)
	nearest     uint64   // bit n: the weekday nearest to day n (nW)
	nearestLast uint64   // bit n: the weekday nearest to n days before the last one (LW, L-nW)
	nth         [7]uint8 // by weekday, bit n: the n-th of the month (FRI#n); bit lastOfMonth: the last one (FRIL)
}

// lastOfMonth is the bit of nth for the last one.
const lastOfMonth = 6

// sevenths are the days 1, 8, 15, 22 and 29.
const sevenths = 1<<1 | 1<<8 | 1<<15 | 1<<22 | 1<<29

// of returns the days that are due in a month of that length whose first day is that weekday: bit n for day n.
func (m monthDays) of(first time.Weekday, length int) uint64 {
	all := uint64(1)<<(length+1) - 2
	dom, dow := m.dom, uint64(0)
	for n := range each(m.days.last) {
		dom |= dayBit(length - n)
	}
	for n := range each(m.days.nearest) {
		dom |= nearestWeekday(n, first, length)
	}
	for n := range each(m.days.nearestLast) {
		dom |= nearestWeekday(length-n, first, length)
	}
	for weekday := range 7 {
		day := 1 + (weekday-int(first)+7)%7 // the first one in this month
		if m.dow&(1<<weekday) != 0 {
			dow |= sevenths << (day - 1)
		}
		for n := range each(uint64(m.days.nth[weekday])) {
			if n == lastOfMonth {
				dow |= dayBit(day + (length-day)/7*7)
			} else {
				dow |= dayBit(day + (n-1)*7)
			}
		}
	}
	if m.both {
		return dom & dow & all
	}
	return (dom | dow) & all
}

// nearestWeekday is the Monday to Friday that is nearest to a day, in a month of that length. A day that the month does
// not have has none.
func nearestWeekday(day int, first time.Weekday, length int) uint64 {
	if day < 1 || day > length {
		return 0
	}
	switch weekday := (int(first) + day - 1) % 7; {
	case weekday == int(time.Saturday) && day == 1:
		day += 2
	case weekday == int(time.Saturday):
		day--
	case weekday == int(time.Sunday) && day == length:
		day -= 2
	case weekday == int(time.Sunday):
		day++
	}
	return dayBit(day)
}

// dayBit is the bit of a day; none if there is no such day.
func dayBit(day int) uint64 {
	if day < 1 {
		return 0
	}
	return 1 << day
}

// each yields the numbers of the bits in a set.
func each(set uint64) func(yield func(int) bool) {
	return func(yield func(int) bool) {
		for ; set != 0; set &= set - 1 {
			if !yield(bits.TrailingZeros64(set)) {
				return
			}
		}
	}
}

// everDue reports whether any day of these months is ever due. Each month begins with each weekday, in leap years too.
func (m monthDays) everDue(months uint64) bool {
	for month := time.January; month <= time.December; month++ {
		if months&(1<<month) == 0 {
			continue
		}
		for first := range 7 {
			if m.of(time.Weekday(first), monthLength(2000, month)) != 0 || m.of(time.Weekday(first), monthLength(2001, month)) != 0 {
				return true
			}
		}
	}
	return false
}

func monthLength(year int, month time.Month) int {
	switch {
	case month == time.February && (year%4 != 0 || year%100 == 0 && year%400 != 0):
		return 28
	case month == time.February:
		return 29
	case month == time.April || month == time.June || month == time.September || month == time.November:
		return 30
	}
	return 31
}
