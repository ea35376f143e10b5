package httphandler

import (
	"html"
	"iter"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	// depth is how many escapes may be nested, as those of a URL in HTML in JSON.
	depth = 3
	// widest is how much longer the usual escapes make a text: one byte becomes \u0026 or &quot;.
	widest = 6
	// longestEntity is how many bytes the name of a character in HTML has at most.
	longestEntity = 32
)

// layer is a text with some escapes undone: %XX of URLs, \" and \u0022 of JSON, &quot; and &#34; of HTML.
// Whichever of them a server applies, the secret below is the same.
type layer struct {
	text string
	from []int // where in the original that begins which text[i] stands for; the last one is the original's end
}

func plain(text string) layer {
	l := layer{text, make([]int, len(text)+1)}
	for i := range l.from {
		l.from[i] = i
	}
	return l
}

// layers are a text as it is, and with one level of escapes undone after the other; the second value is true for the last.
func layers(text string) iter.Seq2[layer, bool] {
	return func(yield func(layer, bool) bool) {
		for l, undone := plain(text), 0; ; undone++ {
			below, changed := l.unescape()
			last := !changed || undone == depth
			if !yield(l, last) || last {
				return
			}
			l = below
		}
	}
}

// unescape undoes one level of escapes, and reports whether there were any.
func (l layer) unescape() (below layer, changed bool) {
	if !strings.ContainsAny(l.text, `%\&`) {
		return l, false
	}
	text, from := make([]byte, 0, len(l.text)), make([]int, 0, len(l.text)+1)
	for i := 0; i < len(l.text); {
		stands, length := escape(l.text[i:])
		if length == 0 {
			stands, length = l.text[i:i+1], 1
		} else {
			changed = true
		}
		text = append(text, stands...)
		for range len(stands) {
			from = append(from, l.from[i])
		}
		i += length
	}
	return layer{string(text), append(from, l.from[len(l.text)])}, changed
}

// escape is what the escape at the beginning of text stands for, and its length; 0 if there is none.
func escape(text string) (stands string, length int) {
	switch text[0] {
	case '%':
		if code, ok := hex(text, 1, 2); ok {
			return string([]byte{byte(code)}), 3
		}
	case '&':
		end := strings.IndexByte(text[:min(len(text), longestEntity+2)], ';')
		if end < 0 || strings.ContainsAny(text[1:end], "&=%+ ") {
			return "", 0
		}
		if stands := html.UnescapeString(text[:end+1]); stands != text[:end+1] {
			return stands, end + 1
		}
	case '\\':
		return backslashed(text)
	}
	return "", 0
}

// backslashed is escape for what JSON has, and quoted strings of Go.
func backslashed(text string) (stands string, length int) {
	if len(text) < 2 {
		return "", 0
	}
	if at := strings.IndexByte(`"'\/bfnrt`, text[1]); at >= 0 {
		return "\"'\\/\b\f\n\r\t"[at : at+1], 2
	}
	switch text[1] {
	case 'x':
		if code, ok := hex(text, 2, 2); ok {
			return string([]byte{byte(code)}), 4
		}
	case 'u':
		first, ok := hex(text, 2, 4)
		if !ok {
			return "", 0
		}
		if second, ok := hex(text, 8, 4); ok && text[6:8] == `\u` {
			if both := utf16.DecodeRune(first, second); both != utf8.RuneError {
				return string(both), 12
			}
		}
		return string(first), 6
	}
	return "", 0
}

// hex reads digits of text from an index on.
func hex(text string, at, digits int) (code rune, ok bool) {
	if len(text) < at+digits {
		return 0, false
	}
	n, err := strconv.ParseUint(text[at:at+digits], 16, 32)
	return rune(n), err == nil
}

// fold makes texts equal that differ in capitals, or in how a query has spaces.
func fold(text string) string {
	folded := []byte(text)
	for i, c := range folded {
		switch {
		case 'A' <= c && c <= 'Z':
			folded[i] = c + 'a' - 'A'
		case c == '+':
			folded[i] = ' '
		}
	}
	return string(folded)
}

// mark marks the part of the original that stands for form, which is looked up in text: the layer's, perhaps
// folded.
func (l layer) mark(text, form string, secret []bool) {
	for at := 0; ; {
		i := strings.Index(text[at:], form)
		if i < 0 {
			return
		}
		at += i + len(form)
		end := at
		for l.from[end] == l.from[at-1] { // an escape that stands for more bytes is marked as a whole
			end++
		}
		for j := l.from[at-len(form)]; j < l.from[end]; j++ {
			secret[j] = true
		}
	}
}
