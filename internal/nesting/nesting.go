// Package nesting measures JSON before a decoder goes down into it.
package nesting

// Depth is how far lists and objects of a JSON text are within each other: 0 for a number. It takes any
// bytes; of what is no JSON it counts the brackets that stand outside of quotes.
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
