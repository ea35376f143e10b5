package jobs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode"
	"unicode/utf8"
)

// Limits of what a definition or a new task may be. All are inclusive.
const (
	MaxPayload        = 256 << 10 // bytes of JSON
	MaxPayloadDepth   = 100       // lists and objects within each other
	MaxPriority       = 100       // and down to −100
	MaxIdempotencyKey = 255       // bytes
	MaxTags           = 20
	MaxTag            = 64 // bytes
	MaxWorkers        = 10_000
	MaxMaxRunning     = 1_000_000
	MaxRetries        = 1000
	MaxCatchUp        = 10_000
	MaxLabels         = 64
	MaxDescription    = 4096 // bytes
)

// checkPayload says what is wrong with a payload, or nothing. Empty is fine.
func checkPayload(payload []byte) (problem string) {
	switch {
	case len(payload) == 0:
		return ""
	case len(payload) > MaxPayload:
		return fmt.Sprintf("%d bytes, at most %d are allowed; store it elsewhere and pass its name", len(payload), MaxPayload)
	case depth(payload) > MaxPayloadDepth:
		return fmt.Sprintf("nested deeper than %d; make it flatter", MaxPayloadDepth)
	case !json.Valid(payload):
		return "not valid JSON"
	case !utf8.Valid(payload):
		return "not valid UTF-8"
	}
	return ""
}

// depth is how far lists and objects of a JSON text are nested; it reads any bytes.
func depth(text []byte) int {
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

// printable reports whether s is text without control characters, in one line.
func printable(s string) bool {
	if !utf8.ValidString(s) {
		return false
	}
	for _, r := range s {
		if !unicode.IsPrint(r) {
			return false
		}
	}
	return true
}

func compact(raw json.RawMessage) json.RawMessage {
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return raw // what is wrong with it is said by checkPayload
	}
	return b.Bytes()
}
