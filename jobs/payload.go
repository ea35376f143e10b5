package jobs

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"

	"github.com/lockstep-scheduler/lockstep/internal/limits"
	"github.com/lockstep-scheduler/lockstep/internal/nesting"
	"github.com/lockstep-scheduler/lockstep/internal/plainjson"
)

// MaxPayload is how large the payload of a task may be, in bytes of JSON.
const MaxPayload = 256 << 10

// EncodePayload returns what each task of the job gets, as compact JSON; nil if that is nothing. The error is
// a [*FieldError].
func (j Job) EncodePayload() (json.RawMessage, error) {
	var p problems
	payload := p.payload("payload", j.Payload)
	return payload, p.err()
}

// payload checks a payload, and returns it as compact JSON; nil if there is none, or it is wrong.
func (p *problems) payload(path string, v any) json.RawMessage {
	if v == nil {
		return nil
	}
	text, isRaw := v.(json.RawMessage)
	if isRaw {
		text = compact(text)
	} else {
		var err error
		if text, err = plainjson.Marshal(v); err != nil {
			p.add(path, "cannot be written as JSON: %v", err)
			return nil
		}
	}
	switch {
	case len(text) == 0:
	case len(text) > MaxPayload:
		p.add(path, "%d bytes, at most %d are allowed; store it elsewhere and pass its name", len(text), MaxPayload)
	case nesting.Depth(text) > limits.PayloadDepth:
		p.add(path, "nested deeper than %d; make it flatter", limits.PayloadDepth)
	case !json.Valid(text):
		p.add(path, "not valid JSON")
	case !utf8.Valid(text):
		p.add(path, "not valid UTF-8")
	default:
		// Of two values a key of a lock, what is unique and params would read the last one, and the handler may read the first.
		if at := plainjson.Repeated(text); at != nil {
			p.add(path+pointer(at), "the key stands twice in its object; remove one")
			return nil
		}
		return text
	}
	return nil
}

// compact returns raw as it is if it is not JSON.
func compact(raw json.RawMessage) json.RawMessage {
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return raw
	}
	return b.Bytes()
}
