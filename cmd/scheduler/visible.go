package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/term"
)

// visible escapes what could control a terminal or reorder text, as \x1b and \u202e. All human-readable output goes
// through it: nearly all of it contains text from elsewhere (errors of tasks, labels, answers of servers).
//
// Line breaks and tabs stay, and \r\n is a line break. A rune may be split over several writes.
type visible struct {
	w io.Writer

	mu   sync.Mutex
	rest []byte // an incomplete rune, or a \r that may begin a line break
}

func (v *visible) Write(p []byte) (int, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	text := append(v.rest, p...)
	shown := make([]byte, 0, len(text))
	for len(text) > 0 && utf8.FullRune(text) && !(len(text) == 1 && text[0] == '\r') {
		r, n := utf8.DecodeRune(text)
		switch {
		case r == '\n' || r == '\t':
			shown = append(shown, text[0])
		case r == '\r' && text[1] == '\n':
		default:
			shown = appendShown(shown, r, text[:n])
		}
		text = text[n:]
	}
	v.rest = append([]byte(nil), text...)
	if _, err := v.w.Write(shown); err != nil {
		return 0, err
	}
	return len(p), nil
}

// flush writes an incomplete rune.
func (v *visible) flush() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.rest) > 0 {
		_, _ = io.WriteString(v.w, show(string(v.rest)))
		v.rest = nil
	}
}

// show is s escaped, in one line.
func show(s string) string {
	shown := make([]byte, 0, len(s))
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		shown = appendShown(shown, r, []byte(s[:n]))
		s = s[n:]
	}
	return string(shown)
}

func appendShown(to []byte, r rune, spelled []byte) []byte {
	switch {
	case r == utf8.RuneError && len(spelled) == 1, r < ' ':
		return fmt.Appendf(to, `\x%02x`, spelled[0])
	case misleads(r):
		return fmt.Appendf(to, `\u%04x`, r)
	}
	return append(to, spelled...)
}

// misleads reports whether r, which JSON leaves unescaped, is not a visible character.
func misleads(r rune) bool {
	return r >= 0x7f && r < 0xa0 || // DEL and C1, which may begin an escape sequence
		r == 0x61c || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || // direction of text
		r == 0x2028 || r == 0x2029 || // line breaks in some programs
		r == 0xfffe || r == 0xffff // noncharacters
}

// cellText escapes a value for a table's cell: one line.
func cellText(s string) string {
	if s == "" {
		return "-"
	}
	return show(strings.NewReplacer("\r\n", " ", "\n", " ", "\t", " ").Replace(s))
}

// isTerminal reports whether w writes to a terminal.
func isTerminal(w io.Writer) bool {
	if v, ok := w.(*visible); ok {
		w = v.w
	}
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
