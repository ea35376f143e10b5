package plainjson

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
)

// Repeated finds a key that an object has twice, as readers see it: "a" and "\u0061" are one key. It returns the keys and the places in lists that lead to it; nil: there
// is none. text is valid JSON, in valid UTF-8.
func Repeated(text []byte) (at []string) {
	var room [2 * searched][]byte // no allocation for what is small
	r := reader{text: text, keys: room[:0]}
	if r.value() {
		slices.Reverse(r.found)
		return r.found
	}
	return nil
}

// searched is how many keys of an object are compared one by one, before they are looked up.
const searched = 16

// reader reads a text up to a key that stands twice.
type reader struct {
	text  []byte
	next  int
	keys  [][]byte // of the objects that are open
	found []string // from the key outwards
}

// value reads one value, and reports whether a key was found.
func (r *reader) value() bool {
	switch r.space(); r.text[r.next] {
	case '{':
		return r.object()
	case '[':
		return r.list()
	case '"':
		r.quoted()
	default: // up to what is no part of a number or a word
		for r.next < len(r.text) {
			switch r.text[r.next] {
			case ',', ']', '}', ' ', '\t', '\r', '\n':
				return false
			}
			r.next++
		}
	}
	return false
}

func (r *reader) object() bool {
	first := len(r.keys)
	var many map[string]bool
	for r.open('}') {
		key := r.quoted()
		if bytes.IndexByte(key, '\\') >= 0 {
			var plain string
			_ = json.Unmarshal(r.text[r.next-len(key)-2:r.next], &plain) // it is valid
			key = []byte(plain)
		}
		again := false
		switch own := r.keys[first:]; {
		case len(own) < searched:
			again = slices.ContainsFunc(own, func(k []byte) bool { return bytes.Equal(k, key) })
		case many == nil:
			many = make(map[string]bool, 2*searched)
			for _, k := range own {
				many[string(k)] = true
			}
			fallthrough
		default:
			again = many[string(key)]
			many[string(key)] = true
		}
		r.keys = append(r.keys, key)
		if r.space(); !again {
			r.next++ // the colon
			again = r.value()
		}
		if again {
			r.found = append(r.found, string(key))
			return true
		}
	}
	r.keys = r.keys[:first]
	return false
}

func (r *reader) list() bool {
	for i := 0; r.open(']'); i++ {
		if r.value() {
			r.found = append(r.found, strconv.Itoa(i))
			return true
		}
	}
	return false
}

// open goes past the bracket or the comma before the next member; false: it has gone past the end.
func (r *reader) open(end byte) bool {
	r.space()
	if r.text[r.next] != end {
		r.next++ // a bracket, or a comma
		r.space()
	}
	if r.text[r.next] == end { // of nothing, or after the last one
		r.next++
		return false
	}
	return true
}

// quoted goes past a text, and returns what is between its quotes.
func (r *reader) quoted() []byte {
	r.next++
	begin := r.next
	for r.text[r.next] != '"' {
		if r.text[r.next] == '\\' {
			r.next++
		}
		r.next++
	}
	r.next++
	return r.text[begin : r.next-1]
}

func (r *reader) space() {
	for r.next < len(r.text) && (r.text[r.next] == ' ' || r.text[r.next] == '\n' || r.text[r.next] == '\t' || r.text[r.next] == '\r') {
		r.next++
	}
}
