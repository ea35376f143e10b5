package clip

import "testing"

func TestText(t *testing.T) {
	for _, c := range []struct {
		s    string
		most int
		want string
	}{{"", 0, ""}, {"abc", 3, "abc"}, {"abc", 2, "ab"}, {"aä", 2, "a"}, {"ä", 1, ""}, {"a\xffb", 3, "a\xffb"}, {"a\xffb", 2, "a"}} {
		if got := Text(c.s, c.most); got != c.want {
			t.Errorf("%q, %d: %q, want %q", c.s, c.most, got, c.want)
		}
	}
}

func TestQuoted(t *testing.T) {
	for s, want := range map[string]string{"a\nb": `"a\nb"`, "abcd": `"abcd"`, "abcde": `"abcd…"`, "abcä": `"abc…"`, "\u202eab": `"\u202ea…"`} {
		if got := Quoted(s, 4); got != want {
			t.Errorf("%q: %s, want %s", s, got, want)
		}
	}
}
