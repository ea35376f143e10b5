// Package clip shortens text and output.
package clip

import (
	"strconv"
	"strings"
)

// Text is s, or its first bytes, at most so many, as valid UTF-8.
func Text(s string, bytes int) string {
	if len(s) <= bytes {
		return s
	}
	return strings.ToValidUTF8(s[:bytes], "")
}

// Quoted shows at most so many bytes of foreign text in a message, escaped.
func Quoted(s string, bytes int) string {
	if len(s) > bytes {
		s = Text(s, bytes) + "…"
	}
	return strconv.Quote(s)
}
