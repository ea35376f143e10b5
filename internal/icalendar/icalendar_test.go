package icalendar

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// file is a calendar of events, each a list of lines.
func file(events ...string) string {
	var b strings.Builder
	b.WriteString("BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//x//y//EN\r\n")
	for i, e := range events {
		fmt.Fprintf(&b, "BEGIN:VEVENT\r\nDTSTAMP:20260101T000000Z\r\n")
		if !strings.Contains(e, "UID:") {
			fmt.Fprintf(&b, "UID:%d\r\n", i)
		}
		b.WriteString(strings.ReplaceAll(e, "\n", "\r\n") + "\r\nEND:VEVENT\r\n")
	}
	b.WriteString("END:VCALENDAR\r\n")
	return b.String()
}

// spans formats times: days as 2026-12-25..2026-12-27, moments in UTC.
func spans(t Times) string {
	var all []string
	for _, d := range t.Days {
		all = append(all, d.From.Format(time.DateOnly)+".."+d.Until.Format(time.DateOnly))
	}
	for _, s := range t.Spans {
		all = append(all, s.From.UTC().Format("2006-01-02T15:04Z")+".."+s.Until.UTC().Format("2006-01-02T15:04Z"))
	}
	return strings.Join(all, " ")
}

func london(t *testing.T) *time.Location {
	t.Helper()
	zone, err := time.LoadLocation("Europe/London")
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

func TestEvents(t *testing.T) {
	for what, c := range map[string]struct {
		text string
		want string
	}{
		"no events":                      {file(), ""},
		"a day":                          {file("DTSTART;VALUE=DATE:20261225"), "2026-12-25..2026-12-26"},
		"a day without VALUE":            {file("DTSTART:20261225\nDTEND:20261226"), "2026-12-25..2026-12-26"},
		"a day that ends on itself":      {file("DTSTART;VALUE=DATE:20261225\nDTEND;VALUE=DATE:20261225"), "2026-12-25..2026-12-26"},
		"days that touch":                {file("DTSTART;VALUE=DATE:20261225\nDTEND;VALUE=DATE:20261227", "DTSTART;VALUE=DATE:20261227"), "2026-12-25..2026-12-28"},
		"days by a duration":             {file("DTSTART;VALUE=DATE:20261225\nDURATION:P1W1D"), "2026-12-25..2027-01-02"},
		"in UTC":                         {file("DTSTART:20260601T120000Z\nDTEND:20260601T133000Z"), "2026-06-01T12:00Z..2026-06-01T13:30Z"},
		"in the local zone":              {file("DTSTART:20260601T120000\nDURATION:PT1H30M"), "2026-06-01T11:00Z..2026-06-01T12:30Z"},
		"in a zone of its own":           {file("DTSTART;TZID=America/New_York:20260601T120000\nDTEND;TZID=America/New_York:20260601T130000"), "2026-06-01T16:00Z..2026-06-01T17:00Z"},
		"without an end":                 {file("DTSTART:20260601T120000Z"), ""},
		"cancelled":                      {file("DTSTART;VALUE=DATE:20261225\nSTATUS:CANCELLED"), ""},
		"free":                           {file("DTSTART;VALUE=DATE:20261225\nTRANSP:TRANSPARENT\nSTATUS:TENTATIVE"), "2026-12-25..2026-12-26"},
		"a to-do, an alarm and a zone":   {strings.Replace(file("DTSTART;VALUE=DATE:20261225\nBEGIN:VALARM\nTRIGGER:-PT15M\nACTION:DISPLAY\nEND:VALARM"), "BEGIN:VEVENT", "BEGIN:VTODO\r\nUID:t\r\nDUE;VALUE=DATE:20260101\r\nEND:VTODO\r\nBEGIN:VTIMEZONE\r\nTZID:X\r\nBEGIN:STANDARD\r\nDTSTART:19701025T020000\r\nTZOFFSETFROM:+0100\r\nTZOFFSETTO:+0000\r\nEND:STANDARD\r\nEND:VTIMEZONE\r\nBEGIN:VEVENT", 1), "2026-12-25..2026-12-26"},
		"folded lines":                   {file("DTSTART;VALUE=DATE:2026\n 1225\nSUMMARY:Christ\n mas"), "2026-12-25..2026-12-26"},
		"recurs":                         {file("DTSTART;VALUE=DATE:20261225\nRRULE:FREQ=YEARLY;COUNT=3"), "2026-12-25..2026-12-26 2027-12-25..2027-12-26 2028-12-25..2028-12-26"},
		"recurs until a day":             {file("DTSTART;VALUE=DATE:20260504\nRRULE:FREQ=YEARLY;BYMONTH=5;BYDAY=1MO;UNTIL=20280501"), "2026-05-04..2026-05-05 2027-05-03..2027-05-04 2028-05-01..2028-05-02"},
		"recurs, at the same local time": {file("DTSTART;TZID=Europe/London:20260328T100000\nDTEND;TZID=Europe/London:20260328T110000\nRRULE:FREQ=DAILY;COUNT=2"), "2026-03-28T10:00Z..2026-03-28T11:00Z 2026-03-29T09:00Z..2026-03-29T10:00Z"},
		"without a day":                  {file("DTSTART;VALUE=DATE:20260101\nRRULE:FREQ=DAILY;COUNT=3\nEXDATE;VALUE=DATE:20260102"), "2026-01-01..2026-01-02 2026-01-03..2026-01-04"},
		"without two days":               {file("DTSTART;VALUE=DATE:20260101\nRRULE:FREQ=DAILY;COUNT=3\nEXDATE;VALUE=DATE:20260101,20260102"), "2026-01-03..2026-01-04"},
		"further days":                   {file("DTSTART;VALUE=DATE:20260101\nRDATE;VALUE=DATE:20260401,20260601"), "2026-01-01..2026-01-02 2026-04-01..2026-04-02 2026-06-01..2026-06-02"},
		"one is moved":                   {file("UID:s\nDTSTART;VALUE=DATE:20260101\nRRULE:FREQ=YEARLY;COUNT=3", "UID:s\nRECURRENCE-ID;VALUE=DATE:20270101\nDTSTART;VALUE=DATE:20270104"), "2026-01-01..2026-01-02 2027-01-04..2027-01-05 2028-01-01..2028-01-02"},
		"one is cancelled":               {file("UID:s\nDTSTART:20260101T100000\nDURATION:PT1H\nRRULE:FREQ=YEARLY;COUNT=2", "UID:s\nRECURRENCE-ID:20270101T100000\nDTSTART:20270101T100000\nSTATUS:CANCELLED"), "2026-01-01T10:00Z..2026-01-01T11:00Z"},
		"the first is not of its rule":   {file("DTSTART;VALUE=DATE:20260102\nRRULE:FREQ=MONTHLY;BYMONTHDAY=1;UNTIL=20260301"), "2026-01-02..2026-01-03 2026-02-01..2026-02-02 2026-03-01..2026-03-02"},
		"an unknown property between":    {strings.Replace(file("DTSTART;VALUE=DATE:20261225"), "END:VCALENDAR", "X-WR-CALNAME:x\r\nEND:VCALENDAR", 1), "2026-12-25..2026-12-26"},
		"with plain line feeds":          {strings.ReplaceAll(file("DTSTART;VALUE=DATE:20261225"), "\r", ""), "2026-12-25..2026-12-26"},
	} {
		got, err := Read(c.text, london(t))
		if err != nil {
			t.Errorf("%s: %v", what, err)
		} else if text := spans(got); text != c.want {
			t.Errorf("%s: %q, want %q", what, text, c.want)
		}
	}
}

// What recurs for ever is known until the end of 2099, whenever it is read.
func TestTheEndOfWhatIsKnown(t *testing.T) {
	got, err := Read(file("DTSTART;VALUE=DATE:20261225\nRRULE:FREQ=YEARLY", "DTSTART:20260101T000000Z\nDURATION:PT1S\nRRULE:FREQ=DAILY"), time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(got.Days); n != 74 || got.Days[n-1].From.Year() != 2099 {
		t.Errorf("%d days, up to %v", n, got.Days[n-1])
	}
	if n := len(got.Spans); n != 27028 || !got.Spans[n-1].From.Equal(time.Date(2099, 12, 31, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("%d times, up to %v", n, got.Spans[n-1])
	}
}

func TestRefusedFiles(t *testing.T) {
	many := make([]string, maxEvents+1)
	for i := range many {
		many[i] = "DTSTART;VALUE=DATE:20261225"
	}
	rules := make([]string, maxRules+1)
	for i := range rules {
		rules[i] = "DTSTART;VALUE=DATE:20261225\nRRULE:FREQ=YEARLY;COUNT=1"
	}
	daily := make([]string, 4)
	for i := range daily {
		daily[i] = "DTSTART;VALUE=DATE:20260101\nRRULE:FREQ=DAILY"
	}
	for want, text := range map[string]string{
		"is not an iCalendar file":                                                    "version: 1\n",
		"is not an iCalendar file:":                                                   "",
		"is not an iCalendar file: \"malformed":                                       "BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART\nEND:VEVENT\nEND:VCALENDAR\n",
		"has 1048577 bytes, at most 1048576 are allowed":                              strings.Repeat("x", MaxSize+1),
		"has a line of more than 65536 bytes":                                         file("DTSTART:20261225\nX;Y=" + strings.Repeat(" a\n", 30_000)),
		"has 10001 events, at most 10000 are allowed":                                 file(many...),
		"has 1001 events that recur, at most 1000":                                    file(rules...),
		"more than 100000 occurrences until the end of 2099":                          file(daily...),
		`event "20261225 Christmas": RRULE: FREQ=HOURLY recurs more often than daily`: file("DTSTART:20261225\nSUMMARY:Christmas\nRRULE:FREQ=HOURLY"),
		"recurs 48 times a day, at most 24 are allowed":                               file("DTSTART:20261225T000000Z\nRRULE:FREQ=DAILY;BYHOUR=" + strings.TrimSuffix(strings.Repeat("1,", 24), ",") + ";BYMINUTE=0,30"),
		"INTERVAL=9000000000 is out of range 1–1000":                                  file("DTSTART:20261225\nRRULE:FREQ=WEEKLY;INTERVAL=9000000000"),
		"COUNT=-1 is out of range":                                                    file("DTSTART:20261225\nRRULE:FREQ=WEEKLY;COUNT=-1"),
		"BYEASTER is not part of the standard":                                        file("DTSTART:20261225\nRRULE:FREQ=YEARLY;BYEASTER=1000"),
		"a month has at most five of these weekdays":                                  file("DTSTART:20261225\nRRULE:FREQ=MONTHLY;BYDAY=53MO"),
		"bymonth must be between 1 and 12":                                            file("DTSTART:20261225\nRRULE:FREQ=MONTHLY;BYMONTH=13"),
		"RRULE: \"FREQ=OFTEN\" cannot be read":                                        file("DTSTART:20261225\nRRULE:FREQ=OFTEN"),
		"RRULE: is there twice":                                                       file("DTSTART:20261225\nRRULE:FREQ=YEARLY\nRRULE:FREQ=DAILY"),
		"EXRULE: is not supported":                                                    file("DTSTART:20261225\nEXRULE:FREQ=YEARLY"),
		"RECURRENCE-ID: RANGE is not supported":                                       file("DTSTART:20261225\nRECURRENCE-ID;RANGE=THISANDFUTURE:20261225"),
		"has no DTSTART":                                                              file("SUMMARY:x"),
		"DTSTART: \"tomorrow\" is neither a date nor a time":                          file("DTSTART:tomorrow"),
		"DTSTART: the year 1899 is out of range":                                      file("DTSTART:18991231"),
		"ends before it starts":                                                       file("DTSTART:20261225T120000Z\nDTEND:20261225T110000Z"),
		"DURATION: \"-P1D\" is not a duration":                                        file("DTSTART:20261225\nDURATION:-P1D"),
		`time zone "GMT Standard Time" is not known by its IANA name`:                 file("DTSTART;TZID=GMT Standard Time:20261225T120000"),
		`time zone "Local" is not known`:                                              file("DTSTART;TZID=Local:20261225T120000"),
		"RDATE: periods are not supported":                                            file("DTSTART:20261225T120000Z\nRDATE;VALUE=PERIOD:20261226T120000Z/PT1H"),
	} {
		began := time.Now()
		got, err := Read(text, time.UTC)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v", want, err, spans(got))
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("%s: took %v", want, took)
		}
	}
}

// The first problems are told at once.
func TestSeveralProblems(t *testing.T) {
	_, err := Read(file("DTSTART:1", "DTSTART:2", "DTSTART:3", "DTSTART:4", "DTSTART:5", "DTSTART:6"), time.UTC)
	if err == nil || !strings.Contains(err.Error(), `"1"`) || !strings.Contains(err.Error(), `"5"`) || strings.Contains(err.Error(), `"6"`) {
		t.Error(err)
	}
}

// Content is what the times follow from, and nothing else.
func TestContent(t *testing.T) {
	base := "DTSTART;VALUE=DATE:20261225\nRRULE:FREQ=YEARLY;COUNT=3"
	content := func(events ...string) string {
		got, err := Read(file(events...), time.UTC)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(got.Content, "|")
	}
	one := content(base, "DTSTART:20260101")
	for what, same := range map[string]string{
		"another order":     content("DTSTART:20260101", base),
		"a name":            content(base+"\nSUMMARY:x\nLOCATION:y\nUID:z", "DTSTART:20260101"),
		"a stamp":           strings.ReplaceAll(content(base, "DTSTART:20260101\nLAST-MODIFIED:20260202T000000Z"), "x", "x"),
		"a cancelled event": content(base, "DTSTART:20260101", "DTSTART:20270101\nSTATUS:CANCELLED"),
		"one twice":         content(base, base, "DTSTART:20260101"),
	} {
		if same != one {
			t.Errorf("%s counts: %s", what, same)
		}
	}
	seen := map[string]string{one: "nothing"}
	for what, other := range map[string]string{
		"a day":        content(base, "DTSTART:20260102"),
		"a length":     content(base, "DTSTART:20260101\nDURATION:P2D"),
		"a rule":       content(base+";INTERVAL=2", "DTSTART:20260101"),
		"an exception": content(base+"\nEXDATE:20271225", "DTSTART:20260101"),
		"a further":    content(base+"\nRDATE:20271225", "DTSTART:20260101"),
		"a zone":       content(base, "DTSTART;TZID=Europe/London:20260101T000000\nDURATION:P1D"),
		"no zone":      content(base, "DTSTART:20260101T000000\nDURATION:P1D"),
		"a move":       content("UID:s\n"+base, "UID:s\nRECURRENCE-ID:20271225\nDTSTART:20260101"),
		"a gone one":   content("UID:s\n"+base, "DTSTART:20260101", "UID:s\nRECURRENCE-ID:20281225\nDTSTART:20281225\nSTATUS:CANCELLED"),
	} {
		if was, dup := seen[other]; dup {
			t.Errorf("%s has the content of %s", what, was)
		}
		seen[other] = what
	}
}

// A rule without any occurrence ends soon.
func TestRulesWithoutOccurrences(t *testing.T) {
	began := time.Now()
	for _, rule := range []string{
		"FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30", "FREQ=WEEKLY;BYMONTH=2;BYMONTHDAY=31", "FREQ=MONTHLY;BYMONTH=2;BYMONTHDAY=30", "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30",
		"FREQ=DAILY;BYSETPOS=366", "FREQ=YEARLY;INTERVAL=1000;BYYEARDAY=366", "FREQ=YEARLY;BYWEEKNO=53;BYMONTH=6",
	} {
		got, err := Read(file("DTSTART;VALUE=DATE:20261225\nRRULE:"+rule), time.UTC)
		if err != nil || len(got.Days) != 1 {
			t.Errorf("%s: %v, %v", rule, spans(got), err)
		}
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("took %v", took)
	}
}

// No text makes Read panic, hang or take much.
func FuzzRead(f *testing.F) {
	f.Add(file("DTSTART;VALUE=DATE:20261225\nRRULE:FREQ=YEARLY;BYDAY=-1MO;COUNT=4"))
	f.Add(file("DTSTART;TZID=Europe/London:20260328T100000\nDTEND:20260328T110000Z\nRRULE:FREQ=WEEKLY;WKST=SU;BYDAY=MO,TU"))
	f.Add("BEGIN:VCALENDAR\nBEGIN:VEVENT\nX;A=\\")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := Read(text, time.UTC)
		if err == nil && len(got.Days)+len(got.Spans) > maxOccurrences {
			t.Error("more than it may have")
		}
	})
}
