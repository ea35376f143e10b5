package store

import "strings"

// clip cuts text to n bytes of valid UTF-8, for a column of that size. What fits stays as it is.
func clip(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "")
}
