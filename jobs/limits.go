package jobs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/lockstep-scheduler/lockstep/internal/limits"
	"github.com/lockstep-scheduler/lockstep/internal/nesting"
)

// MaxPayload is how large the payload of a task may be, in bytes of JSON.
const MaxPayload = 256 << 10

// checkPayload says what is wrong with a payload, or nothing. Empty is fine.
func checkPayload(payload []byte) (problem string) {
	switch {
	case len(payload) == 0:
		return ""
	case len(payload) > MaxPayload:
		return fmt.Sprintf("%d bytes, at most %d are allowed; store it elsewhere and pass its name", len(payload), MaxPayload)
	case nesting.Depth(payload) > limits.PayloadDepth:
		return fmt.Sprintf("nested deeper than %d; make it flatter", limits.PayloadDepth)
	case !json.Valid(payload):
		return "not valid JSON"
	case !utf8.Valid(payload):
		return "not valid UTF-8"
	}
	return ""
}

func compact(raw json.RawMessage) json.RawMessage {
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return raw // what is wrong with it is said by checkPayload
	}
	return b.Bytes()
}
