package httphandler

import "testing"

// What an escape at the beginning of a text stands for, and how long it is; 0 for none.
func TestEscapes(t *testing.T) {
	for text, want := range map[string]struct {
		stands string
		length int
	}{
		"x": {}, "%": {}, "%4": {}, "%4g1": {}, "%zz": {}, "%41": {"A", 3}, "%c3%a4": {"\xc3", 3},
		"&": {}, "&;": {}, "&amp": {}, "&zzz;": {}, "&lt&gt;": {}, "&not=x;": {}, "&a b;": {},
		"&amp;x": {"&", 5}, "&quot;": {`"`, 6}, "&#34;": {`"`, 5}, "&#x22;;": {`"`, 6},
		"&CounterClockwiseContourIntegral;": {"∳", 33}, "&CounterClockwiseContourIntegralx;": {},
		`\`: {}, `\"`: {`"`, 2}, `\/x`: {"/", 2}, `\n`: {"\n", 2}, `\q`: {},
		`\x`: {}, `\x4`: {}, `\xzz`: {}, `\x41`: {"A", 4},
		`\u`: {}, `\u12`: {}, `\uzzzz`: {}, `\u0041`: {"A", 6}, `\u0041\u0042`: {"A", 6}, `\ud83d\ude00`: {"😀", 12},
		`\ud83d`: {"\ufffd", 6}, `\ud83dxxde00`: {"\ufffd", 6}, `\ud83d\u`: {"\ufffd", 6},
	} {
		if stands, length := escape(text); stands != want.stands || length != want.length {
			t.Errorf("%s: %q of %d bytes, want %q of %d", text, stands, length, want.stands, want.length)
		}
	}
}

// Each byte of a layer says where in the original what it stands for begins.
func TestLayersSayWhereTheyAreFrom(t *testing.T) {
	l, changed := plain(`a%2541\u00e9`).unescape()
	if want := "a%41é"; !changed || l.text != want {
		t.Fatalf("%q, changed: %v", l.text, changed)
	}
	for i, from := range []int{0, 1, 4, 5, 6, 6, 12} {
		if l.from[i] != from {
			t.Errorf("byte %d is from %d, want %d", i, l.from[i], from)
		}
	}
	l, changed = l.unescape()
	if l.text != "aAé" || !changed || l.from[1] != 1 || l.from[2] != 6 || l.from[len(l.text)] != 12 {
		t.Errorf("%q, %v, changed: %v", l.text, l.from, changed)
	}
	if _, changed = l.unescape(); changed {
		t.Error("there was nothing to undo any more")
	}
}
