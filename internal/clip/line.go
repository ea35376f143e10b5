package clip

import (
	"regexp"
	"strings"
	"unicode"
)

// LastLine is the last line of foreign text that shows something, for a message: in one line, without what controls a terminal or
// reorders text, and of a longer one the first bytes, at most so many, and an ellipsis. "": no line shows anything. Of a line that carriage returns
// overwrite, as those of progress bars, the last state counts.
func LastLine(text string, bytes int) string {
	for text = strings.ToValidUTF8(text, "\uFFFD"); text != ""; {
		i := strings.LastIndexAny(text, "\n\r")
		if line := plain(text[i+1:]); line != "" {
			return short(line, bytes)
		}
		text = text[:max(i, 0)]
	}
	return ""
}

// FirstLine is the first line that shows something, as LastLine.
func FirstLine(text string, bytes int) string {
	for line := range strings.FieldsFuncSeq(strings.ToValidUTF8(text, "\uFFFD"), func(r rune) bool { return r == '\n' || r == '\r' }) {
		if line = plain(line); line != "" {
			return short(line, bytes)
		}
	}
	return ""
}

// escapes are sequences for terminals: colors, movements of the cursor, titles of windows.
var escapes = regexp.MustCompile(`\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-Z\\^-~])`)

// plain is a line without what does not show, and with single blanks.
func plain(line string) string {
	if strings.ContainsRune(line, '\x1b') {
		line = escapes.ReplaceAllString(line, "")
	}
	line = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsPrint(r):
			return r
		}
		return -1
	}, line)
	return strings.Join(strings.Fields(line), " ")
}

func short(line string, bytes int) string {
	if len(line) > bytes {
		return Text(line, bytes) + "…"
	}
	return line
}
