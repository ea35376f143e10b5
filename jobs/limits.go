package jobs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode"
	"unicode/utf8"

	"github.com/lockstep-scheduler/lockstep/internal/nesting"
)

// Limits of what a definition or a new task may be. All are inclusive.
const (
	MaxPayload        = 256 << 10 // bytes of JSON
	MaxPayloadDepth   = 100       // lists and objects within each other
	MaxPriority       = 100       // and down to −100
	MaxIdempotencyKey = 255       // bytes
	MaxTags           = 20
	MaxTag            = 64  // bytes
	MaxBy             = 255 // bytes
	MaxWorkers        = 10_000
	MaxMaxRunning     = 1_000_000
	MaxRetries        = 1000
	MaxCatchUp        = 10_000
	MaxLabels         = 64
	MaxDescription    = 4096 // bytes
)

// MaxListedPayload is the size in bytes above which a payload is left out of lists: a page of large ones would
// be more than anybody reads. The task by itself has it whole.
const MaxListedPayload = 1 << 10

// How much is kept of what an attempt says, in bytes. More than that is no error, it is cut.
const (
	MaxError  = 16 << 10 // the beginning of the error's text
	MaxOutput = 4 << 20  // whatever scheduler.Options.OutputLimit is
)

// checkPayload says what is wrong with a payload, or nothing. Empty is fine.
func checkPayload(payload []byte) (problem string) {
	switch {
	case len(payload) == 0:
		return ""
	case len(payload) > MaxPayload:
		return fmt.Sprintf("%d bytes, at most %d are allowed; store it elsewhere and pass its name", len(payload), MaxPayload)
	case nesting.Depth(payload) > MaxPayloadDepth:
		return fmt.Sprintf("nested deeper than %d; make it flatter", MaxPayloadDepth)
	case !json.Valid(payload):
		return "not valid JSON"
	case !utf8.Valid(payload):
		return "not valid UTF-8"
	}
	return ""
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
