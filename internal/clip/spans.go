package clip

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Part is a part of an output: its bytes from At on.
type Part struct {
	At   int64
	Data []byte
}

func (p Part) end() int64 { return p.At + int64(len(p.Data)) }

// Spans say which bytes of an output a text has: "0+32768 90000+32768". Between two of them, and before one that does not begin at 0, the text has a
// line that says how many are left out. "": the text is the whole output.
type Spans string

// leftOut is the line in place of bytes that are not kept.
func leftOut(n int64) string { return fmt.Sprintf("\n… %d bytes left out …\n", n) }

// maxSpans is how many spans a text has at most. Each takes up to 40 bytes, and stores have 2,000 for all of them.
const maxSpans = 48

// Join makes a text of parts, and says which bytes it has. Parts may overlap: they have the same bytes there. With more than 47 gaps between parts, the parts in the
// middle are left out as well.
func Join(parts []Part) (text []byte, spans Spans) {
	runs := joined(parts)
	if n := len(runs); n > maxSpans {
		runs = slices.Delete(runs, maxSpans/2, n-maxSpans/2)
	}
	var list []string
	end := int64(0)
	for _, r := range runs {
		if r.At > end {
			text = append(text, leftOut(r.At-end)...)
		}
		text = append(text, r.Data...)
		end = r.end()
		list = append(list, fmt.Sprintf("%d+%d", r.At, len(r.Data)))
	}
	if len(runs) == 0 || len(runs) == 1 && runs[0].At == 0 {
		return text, ""
	}
	return text, Spans(strings.Join(list, " "))
}

// joined are the parts in their order, those as one that follow one another without a gap.
func joined(parts []Part) (runs []Part) {
	parts = slices.SortedFunc(slices.Values(parts), func(a, b Part) int { return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.end(), b.end())) })
	end := int64(0)
	for _, p := range parts {
		if p.end() <= end {
			continue
		}
		from := max(p.At, end)
		news := p.Data[from-p.At:]
		if n := len(runs); n > 0 && from == end {
			runs[n-1].Data = append(runs[n-1].Data, news...)
		} else {
			runs = append(runs, Part{from, slices.Clone(news)})
		}
		end = p.end()
	}
	return runs
}

// News is what comes next of an output that somebody follows.
type News struct {
	Part
	LeftOut int64 // bytes before it that are not kept
}

// After is what a text with these spans has of the output's bytes from at on, and what it has besides at its end. Wrong spans are no panic.
func (s Spans) After(text []byte, at int64) (news []News) {
	end := int64(0) // of what was looked at
	for span := range strings.FieldsSeq(string(s)) {
		first, count, _ := strings.Cut(span, "+")
		begin, err := strconv.ParseInt(first, 10, 64)
		n, errN := strconv.ParseInt(count, 10, 64)
		if err != nil || errN != nil || begin < end || n < 0 || begin+n < begin {
			break
		}
		if begin > end {
			text = text[min(len(leftOut(begin-end)), len(text)):]
		}
		data := text[:min(n, int64(len(text)))]
		text = text[len(data):]
		end = begin + n
		if end > at {
			from := max(at, begin)
			news = append(news, News{Part{from, data[min(from-begin, int64(len(data))):]}, from - at})
			at = end
		}
	}
	if s == "" {
		text = text[min(max(at, 0), int64(len(text))):]
	}
	if len(text) > 0 {
		news = append(news, News{Part{at, text}, 0})
	}
	return news
}

// AfterParts is what parts have of an output's bytes from at on.
func AfterParts(parts []Part, at int64) (news []News) {
	for _, p := range slices.SortedFunc(slices.Values(parts), func(a, b Part) int { return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.end(), b.end())) }) {
		if p.end() <= at {
			continue
		}
		from := max(at, p.At)
		news = append(news, News{Part{from, p.Data[from-p.At:]}, from - at})
		at = p.end()
	}
	return news
}

// Bytes are the first bytes of p, at most so many, without an incomplete rune at the end where p is cut.
func Bytes(p []byte, most int) []byte {
	if len(p) <= most {
		return p
	}
	return wholeRunes(p[:most])
}

// wholeRunes is p without an incomplete rune at its end.
func wholeRunes(p []byte) []byte {
	for i := 1; i < utf8.UTFMax && i <= len(p); i++ {
		if b := p[len(p)-i]; utf8.RuneStart(b) {
			if !utf8.FullRune(p[len(p)-i:]) {
				return p[:len(p)-i]
			}
			break
		}
	}
	return p
}

// Mark is what people read in place of bytes that are left out before a part; "" if there are none.
func (n News) Mark() string {
	if n.LeftOut == 0 {
		return ""
	}
	return leftOut(n.LeftOut)
}
