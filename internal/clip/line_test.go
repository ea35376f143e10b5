package clip

import "testing"

func TestLines(t *testing.T) {
	for text, want := range map[string]struct{ first, last string }{
		"":                                {"", ""},
		" \n\t\r\n":                       {"", ""},
		"one":                             {"one", "one"},
		"one\ntwo\n\n  \n":                {"one", "two"},
		"\n\none\r\ntwo\r\n":              {"one", "two"},
		"10 %\r20 %\rdone\n":              {"10 %", "done"},
		"a\x1b[31mred\x1b[0m\tb":          {"ared b", "ared b"},
		"\x1b]0;title\x07shown":           {"shown", "shown"},
		"\x1b[2K\x1b[1A":                  {"", ""},
		"\x1bcold\x1b(B":                  {"old", "old"},
		"nul\x00 bell\x07 \u202eleft":     {"nul bell left", "nul bell left"},
		"bad \xff byte":                   {"bad \uFFFD byte", "bad \uFFFD byte"},
		"über\u2028\u00a0uns":             {"über uns", "über uns"},
		"0123456789abcd":                  {"0123456789abcd", "0123456789abcd"},
		"0123456789abcde\n0123456789abcü": {"0123456789abcd…", "0123456789abc…"},
	} {
		if got := FirstLine(text, 14); got != want.first {
			t.Errorf("first of %q: %q, want %q", text, got, want.first)
		}
		if got := LastLine(text, 14); got != want.last {
			t.Errorf("last of %q: %q, want %q", text, got, want.last)
		}
	}
}
