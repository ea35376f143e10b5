// Package nesting measures the depth of JSON before it is decoded.
package nesting

// Depth is the depth of nested lists and objects of a JSON text: 0 for a number. It accepts any bytes; in other
// text it counts the brackets outside of quotes.
func Depth(text []byte) int {
	deepest, now, quoted := 0, 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			now++
			deepest = max(deepest, now)
		case c == ']' || c == '}':
			now--
		}
	}
	return deepest
}
