package jobs

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/lockstep-scheduler/lockstep/internal/clip"
	"github.com/lockstep-scheduler/lockstep/internal/limits"
	"github.com/lockstep-scheduler/lockstep/internal/nesting"
	"github.com/lockstep-scheduler/lockstep/internal/plainjson"
)

// MaxResult is how large the result of a task may be, in bytes of JSON.
const MaxResult = 64 << 10

// Reporter takes what an attempt reports while it runs. A replica gives one to each attempt. It may be called by several goroutines at
// once, and does not wait for the store.
type Reporter interface {
	// ReportProgress takes a number from 0 to 1, and a text of one line and at most 200 bytes.
	ReportProgress(done float64, text string)
	// ReportResult takes JSON that is not above MaxResult; nil: there is to be no result. An error if the attempt has ended.
	ReportResult(result json.RawMessage) error
}

// Progress reports how far the attempt has come: done of 1, and a text for people, which may be "". It returns at once, and may be
// called as often as the handler likes, by any of its goroutines: the store gets the last one, about once a second. The task shows
// it until the attempt ends; the next attempt begins without any.
//
// A value below 0 counts as 0, one above 1 as 1. One that is no number is [ErrInvalid], and changes nothing; there is no other error.
// Of the text the first 200 bytes are kept; line ends, and other characters that cannot be printed, become blanks. A report of an
// attempt that has ended, or has lost its task, does nothing, and so does one of a task that no replica runs, as in a test.
func (t Task) Progress(done float64, text string) error {
	if math.IsNaN(done) {
		return fmt.Errorf("progress: %w: not a number; was it divided by 0?", ErrInvalid)
	}
	if t.Reporter != nil {
		t.Reporter.ReportProgress(min(max(done, 0), 1), oneLine(text))
	}
	return nil
}

// oneLine is what is kept of the text of a progress.
func oneLine(text string) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, clip.Text(strings.ToValidUTF8(text, "�"), limits.ProgressText))
	return strings.TrimSpace(text)
}

// SetResult makes v the result of the task, encoded as JSON; a json.RawMessage is taken as it is, without the blanks between its values.
// The last call counts, and nil takes the result back. It is stored when the attempt ends, in the transaction that ends the task, and is
// kept as long as the task: however the task ended, as failed too. The result of an attempt that another one follows is dropped.
//
// What cannot be encoded, is above [MaxResult] or is nested deeper than 100 is [ErrInvalid], and leaves the result as it was. So is a result of an
// attempt that has ended. Without a replica, as in a test, what v is is checked, and nothing more.
func (t Task) SetResult(v any) error {
	result, err := encodeResult(v)
	if err != nil || t.Reporter == nil {
		return err
	}
	return t.Reporter.ReportResult(result)
}

// encodeResult returns v as compact JSON; nil if there is none.
func encodeResult(v any) (json.RawMessage, error) {
	if v == nil {
		return nil, nil
	}
	text, isRaw := v.(json.RawMessage)
	if isRaw {
		text = compact(text)
	} else {
		var err error
		if text, err = plainjson.Marshal(v); err != nil {
			return nil, fmt.Errorf("result: %w: cannot be written as JSON: %w", ErrInvalid, err)
		}
	}
	switch {
	case len(text) > MaxResult:
		return nil, fmt.Errorf("result: %w: %d bytes, at most %d are allowed; store it elsewhere, and make its name the result", ErrInvalid, len(text), MaxResult)
	case nesting.Depth(text) > limits.PayloadDepth:
		return nil, fmt.Errorf("result: %w: nested deeper than %d; make it flatter", ErrInvalid, limits.PayloadDepth)
	case !json.Valid(text):
		return nil, fmt.Errorf("result: %w: not valid JSON", ErrInvalid)
	case !utf8.Valid(text):
		return nil, fmt.Errorf("result: %w: not valid UTF-8", ErrInvalid)
	}
	return text, nil
}
