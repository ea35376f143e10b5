package clip

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// follower has what it was told of an output, byte by byte: what came twice, or at another place than it says, is a fault.
type follower struct {
	t    *testing.T
	all  []byte // that was written, in the end
	at   int64
	left int64 // bytes that it was told are left out
}

func (f *follower) take(news ...News) {
	f.t.Helper()
	for _, n := range news {
		if n.At != f.at+n.LeftOut || n.LeftOut < 0 || len(n.Data) == 0 {
			f.t.Fatalf("at %d it gets %d bytes from %d on, and %d are left out", f.at, len(n.Data), n.At, n.LeftOut)
		}
		if end := n.At + int64(len(n.Data)); end > int64(len(f.all)) || !bytes.Equal(n.Data, f.all[n.At:end]) {
			f.t.Fatalf("%d bytes from %d on are not those of the output", len(n.Data), n.At)
		}
		f.left += n.LeftOut
		f.at = n.At + int64(len(n.Data))
	}
}

// Whoever follows an output while it is written gets each byte once, or is told that it is left out, also where it begins late, and where it gets the rest
// from what was kept in the end.
func TestFollowersGetEachByteOnce(t *testing.T) {
	const limit = 64
	rnd := rand.New(rand.NewPCG(3, 4))
	for round := range 2000 {
		o, f, all := NewOutput(limit), &follower{t: t}, []byte{}
		var parts []Part // as they are stored while the attempt runs
		for range rnd.IntN(30) {
			p := []byte(strings.Repeat(fmt.Sprintf("%d,", round+len(all)), 1+rnd.IntN(12)))
			all = append(all, p...)
			_, _ = o.Write(p)
			f.all = all
			if rnd.IntN(3) == 0 {
				at := int64(0)
				if len(parts) > 0 {
					last := parts[len(parts)-1]
					if at = last.end(); len(last.Data) < 10 {
						at = last.At // it is written again, with what has come since
					}
				}
				part := o.After(at, 40)
				if n := len(parts); n > 0 && parts[n-1].At == part.At {
					parts = parts[:n-1]
				}
				if len(part.Data) > 0 {
					parts = append(parts, part)
				}
			}
			if rnd.IntN(4) == 0 {
				f.take(AfterParts(parts, f.at)...)
			}
		}
		text, spans := o.Kept()
		late := &follower{t: t, all: all}
		late.take(spans.After(text, 0)...)
		f.take(spans.After(text, f.at)...)
		for who, f := range map[string]*follower{"early": f, "late": late} {
			if f.at != int64(len(all)) {
				t.Fatalf("round %d: the %s follower ends at %d of %d bytes", round, who, f.at, len(all))
			}
		}
		if len(all) <= limit && (f.left > 0 || late.left > 0) {
			t.Fatalf("round %d: of %d bytes %d and %d are left out", round, len(all), f.left, late.left)
		}
		if want := int64(len(all) - limit); late.left != max(want, 0) {
			t.Fatalf("round %d: %d bytes are left out, want %d", round, late.left, want)
		}
		// What arrived of a lost attempt.
		text, spans = Join(parts)
		lost := &follower{t: t, all: all}
		lost.take(spans.After(text, 0)...)
		if n := len(parts); n > 0 && lost.at != parts[n-1].end() {
			t.Fatalf("round %d: of what arrived up to %d, %d is told", round, parts[n-1].end(), lost.at)
		}
	}
}

func TestJoin(t *testing.T) {
	for _, c := range []struct {
		parts []Part
		text  string
		spans Spans
	}{
		{nil, "", ""},
		{[]Part{{0, nil}}, "", ""},
		{[]Part{{0, []byte("abc")}}, "abc", ""},
		{[]Part{{3, []byte("de")}, {0, []byte("abc")}}, "abcde", ""},
		{[]Part{{0, []byte("abc")}, {1, []byte("bcd")}, {2, []byte("c")}}, "abcd", ""},
		{[]Part{{0, []byte("abc")}, {10, []byte("k")}, {11, []byte("l")}}, "abc\n… 7 bytes left out …\nkl", "0+3 10+2"},
		{[]Part{{2, []byte("c")}}, "\n… 2 bytes left out …\nc", "2+1"},
		{[]Part{{1, []byte("b")}, {5, []byte("f")}}, "\n… 1 bytes left out …\nb\n… 3 bytes left out …\nf", "1+1 5+1"},
	} {
		text, spans := Join(c.parts)
		if string(text) != c.text || spans != c.spans {
			t.Errorf("%v: %q %q, want %q %q", c.parts, text, spans, c.text, c.spans)
		}
	}
}

func TestAfter(t *testing.T) {
	const text = "abc\n… 7 bytes left out …\nkl"
	for _, c := range []struct {
		text  string
		spans Spans
		at    int64
		want  string
	}{
		{text, "0+3 10+2", 0, "0:abc 10-7:kl"},
		{text, "0+3 10+2", 2, "2:c 10-7:kl"},
		{text, "0+3 10+2", 3, "10-7:kl"},
		{text, "0+3 10+2", 8, "10-2:kl"},
		{text, "0+3 10+2", 11, "11:l"},
		{text, "0+3 10+2", 12, ""},
		{text, "0+3 10+2", 99, ""},
		{text + "\n[lost]", "0+3 10+2", 12, "12:\n[lost]"},
		{"abc", "", 0, "0:abc"},
		{"abc", "", 2, "2:c"},
		{"abc", "", 3, ""},
		{"abc", "", 7, ""},
		{"", "", 0, ""},
		// Whatever is in the database, it is no panic.
		{"ab", "0+3 10+2", 0, "0:ab 10-7:"},
		{"abc", "10+2 0+3", 4, "10-6:"},
		{"abc", "x", 1, "1:abc"},
		{"abc", "0+-1", 1, "1:abc"},
		{"abc", "9223372036854775807+9", 0, "0:abc"},
	} {
		var got []string
		for _, n := range c.spans.After([]byte(c.text), c.at) {
			if n.LeftOut != 0 {
				got = append(got, fmt.Sprintf("%d-%d:%s", n.At, n.LeftOut, n.Data))
				continue
			}
			got = append(got, fmt.Sprintf("%d:%s", n.At, n.Data))
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%q %q from %d: %q, want %q", c.text, c.spans, c.at, s, c.want)
		}
	}
}

// A part ends with a whole rune; bytes that are no UTF-8 are none's beginning.
func TestPartsHaveWholeRunes(t *testing.T) {
	o, at := NewOutput(1<<10), int64(0)
	for _, c := range []struct{ write, want string }{
		{"a\xc3", "a"}, {"\xa4b", "äb"}, {"\xe2\x82", ""}, {"\xac", "€"}, {"\xf0\x9f\x98", ""}, {"x", "\xf0\x9f\x98x"}, {"\xff", "\xff"}, {"\x80\x80\x80\x80", "\x80\x80\x80\x80"},
	} {
		before := at
		_, _ = o.Write([]byte(c.write))
		part := o.After(before, 100)
		if string(part.Data) != c.want || part.At != before {
			t.Errorf("after %q: %q from %d on, want %q from %d on", c.write, part.Data, part.At, c.want, before)
		}
		at = part.end()
	}
	if part := o.After(at-4, 1); len(part.Data) != 1 {
		t.Errorf("one byte: %q", part.Data)
	}
}

func TestMarks(t *testing.T) {
	if got := (News{LeftOut: 3}).Mark() + (News{}).Mark(); got != "\n… 3 bytes left out …\n" {
		t.Errorf("%q", got)
	}
	if news := AfterParts(nil, 3); len(news) > 0 {
		t.Errorf("news of nothing: %v", news)
	}
}

// However many gaps there are, the spans fit into the column of a store, and say which bytes the text has.
func TestSpansAreBounded(t *testing.T) {
	const far = 1 << 62
	var parts []Part
	all := map[int64]byte{}
	for i := range int64(500) {
		at := far + i*1000
		if i == 0 {
			at = 0
		}
		data := []byte{'a' + byte(i%26), 'A' + byte(i%26)}
		parts = append(parts, Part{at, data[:1]}, Part{at + 1, data[1:]})
		all[at], all[at+1] = data[0], data[1]
	}
	text, spans := Join(parts)
	if len(spans) > 2000 {
		t.Errorf("the spans have %d bytes", len(spans))
	}
	news := spans.After(text, 0)
	if len(news) != maxSpans || news[0].At != 0 || news[len(news)-1].end() != parts[len(parts)-1].end() {
		t.Errorf("it has %d parts, from %d to %d", len(news), news[0].At, news[len(news)-1].end())
	}
	at := int64(0)
	for _, n := range news {
		if n.At != at+n.LeftOut || string(n.Data) != string([]byte{all[n.At], all[n.At+1]}) {
			t.Errorf("after %d come %q from %d on, and %d are left out", at, n.Data, n.At, n.LeftOut)
		}
		at = n.end()
	}
	if parts[0].Data[0] != 'a' || len(parts[0].Data) != 1 {
		t.Error("the parts were changed")
	}
}

func TestBytes(t *testing.T) {
	for _, c := range []struct {
		text string
		most int
		want string
	}{{"abc", 3, "abc"}, {"abc", 2, "ab"}, {"aü", 2, "a"}, {"aü", 3, "aü"}, {"a\xc3", 2, "a\xc3"}, {"\xff\xfe", 1, "\xff"}} {
		if got := string(Bytes([]byte(c.text), c.most)); got != c.want {
			t.Errorf("%q, %d: %q, want %q", c.text, c.most, got, c.want)
		}
	}
}
