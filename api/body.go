package api

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"reflect"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lockstep-scheduler/lockstep/internal/clip"
	"github.com/lockstep-scheduler/lockstep/internal/nesting"
)

const (
	maxBody  = 1 << 20 // of one object
	maxDepth = 100     // of nested JSON
)

// unreadTime is the time for an unread body to arrive, so that its client sees the response.
const unreadTime = time.Second

// unread skips a body: the response does not wait for it, and ends the connection.
func unread(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength == 0 || r.ProtoMajor != 1 { // with HTTP/2 its stream ends, and no other
		return
	}
	w.Header().Set("Connection", "close")
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(unreadTime))
}

// readBody returns the body of a write: empty, or UTF-8 text of at most limit bytes. The decoder checks that it is
// JSON.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	early := true
	defer func() {
		if early {
			unread(w, r)
		}
	}()
	if coding := r.Header.Get("Content-Encoding"); coding != "" && coding != "identity" {
		return nil, newProblem(http.StatusUnsupportedMediaType, "unsupported_media_type", "bodies must not be compressed")
	}
	given := r.Header.Get("Content-Type")
	if given != "" && !isJSON(given) {
		return nil, newProblem(http.StatusUnsupportedMediaType, "unsupported_media_type", "the body must be application/json, not "+quote(given))
	}
	if r.ContentLength > limit {
		return nil, tooLarge("", "the body is larger than %d bytes", limit)
	}
	early = false
	body, err := io.ReadAll(http.MaxBytesReader(bare(w), r.Body, limit))
	var large *http.MaxBytesError
	busy, _ := errors.AsType[*problem](err)
	switch {
	case busy != nil:
		unread(w, r)
		return nil, busy
	case errors.As(err, &large):
		return nil, tooLarge("", "the body is larger than %d bytes", limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, malformed("", "the body did not arrive in time")
	case err != nil:
		return nil, malformed("", "the body did not arrive whole")
	case len(trim(body)) == 0:
		return nil, nil
	case given == "":
		return nil, newProblem(http.StatusUnsupportedMediaType, "unsupported_media_type", "the body must have the content type application/json")
	case !utf8.Valid(body):
		return nil, malformed("", "the body is not valid UTF-8")
	case nesting.Depth(body) > maxDepth:
		return nil, malformed("", "the body nests deeper than %d", maxDepth)
	}
	return body, nil
}

// bare is the server's own writer, which closes the connection after a body that was too large.
func bare(w http.ResponseWriter) http.ResponseWriter {
	for {
		around, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return w
		}
		w = around.Unwrap()
	}
}

// trim removes JSON's white space, which is less than Unicode's.
func trim(text []byte) []byte { return bytes.Trim(text, " \t\r\n") }

func isJSON(contentType string) bool {
	kind, params, err := mime.ParseMediaType(contentType)
	charset, has := params["charset"]
	return err == nil && kind == "application/json" && (!has || strings.EqualFold(charset, "utf-8"))
}

// readObject decodes text, exactly one JSON object, into the targets by key. within is the prefix of fields in errors.
func readObject(text []byte, within string, targets map[string]any) error {
	return readEach(text, within, func(key, field string, value json.RawMessage) error {
		target, known := targets[key]
		if !known {
			return malformed(field, "unknown key %s", quote(key))
		}
		if err := json.Unmarshal(value, target); err != nil {
			return malformed(field, "%s", wrongType(err, key, reflect.TypeOf(target)))
		}
		return nil
	})
}

// readEach reads a JSON object whose keys may be any, each once. field is where a key stands.
func readEach(text []byte, within string, read func(key, field string, value json.RawMessage) error) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return malformed(within, "must be a JSON object")
	}
	seen := map[string]bool{}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return notJSON(within, err)
		}
		key := token.(string) // where a key may stand, the decoder lets nothing else pass
		field := join(within, key)
		if seen[key] {
			return malformed(field, "the key %s is given twice", quote(key))
		}
		seen[key] = true
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return notJSON(field, err)
		}
		if err := read(key, field, value); err != nil {
			return err
		}
	}
	if _, err := dec.Token(); err != nil {
		return notJSON(within, err)
	}
	return end(dec)
}

func end(dec *json.Decoder) error {
	if _, err := dec.Token(); err != io.EOF {
		return malformed("", "text after the JSON")
	}
	return nil
}

func notJSON(field string, err error) error { return malformed(field, "not JSON: %v", err) }

// wrongType says what the value of a key must be, for a target of type t.
func wrongType(err error, key string, t reflect.Type) string {
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok {
		return "has the wrong form: " + err.Error()
	}
	what, whole := cmp.Or(asText[key], kindOf(t)), strings.TrimPrefix(wrong.Value, "number ")
	if what == wholeNumber && whole != wrong.Value && wholeText.MatchString(whole) {
		return clip.Text(whole, 80) + " is out of range"
	}
	return "must be " + what
}

const wholeNumber = "a whole number"

// asText are the keys whose texts have a form.
var asText = map[string]string{
	"timeout": durationText, "backoff": durationText, "for": durationText, "wait": durationText, "delay": durationText, "retry_after": durationText,
	"run_at": timeText, "expires_at": timeText, "since": timeText, "until": timeText,
}

const (
	durationText = `a text such as "90s"`
	timeText     = `a text such as "2026-01-31T08:00:00Z"`
)

var wholeText = regexp.MustCompile(`^-?[0-9]+$`)

// kindOf is what JSON has to have for a target of type t, in words.
func kindOf(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a text"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.String {
			return "a list of texts"
		}
		return "a list"
	case reflect.Map, reflect.Struct:
		return "a JSON object"
	case reflect.Float32, reflect.Float64:
		return "a number"
	}
	return wholeNumber
}

func join(within, key string) string {
	key = clip.Text(key, 80)
	if within == "" {
		return key
	}
	return within + "." + key
}

// readKeys reads the body of a write that may have none. q has the same keys as parameters.
func readKeys(w http.ResponseWriter, r *http.Request, q *query, keys map[string]any) error {
	if q.err != nil {
		return q.err
	}
	body, err := readBody(w, r, maxBody)
	if err != nil || body == nil {
		return err
	}
	return readObject(body, "", keys)
}

// readOverride reads suspend, resume and pause: nothing sets the override to value; "reset": true, as a parameter or in
// the body, clears it.
func readOverride(w http.ResponseWriter, r *http.Request, q *query, value bool) (*bool, error) {
	reset, too := q.truth("reset"), false
	err := readKeys(w, r, q, map[string]any{"reset": &too})
	if err != nil || reset || too {
		return nil, err
	}
	return &value, nil
}

// readForce reads "force" of run and retry, as a parameter or in the body, and notes it in the audit. It is the "force"
// of the refusal, or true if no attempt was lost.
func readForce(w http.ResponseWriter, r *http.Request, q *query) (string, error) {
	return readForced(w, r, q, map[string]any{})
}

// readForced is readForce of a body that may have other keys, too.
func readForced(w http.ResponseWriter, r *http.Request, q *query, keys map[string]any) (string, error) {
	force, too := q.force("force"), forcing("")
	keys["force"] = &too
	if err := readKeys(w, r, q, keys); err != nil {
		return "", err
	}
	force = cmp.Or(string(too), force)
	if a, ok := w.(*auditing); ok && force != "" {
		a.entry.Action += "?force=true"
	}
	return force, nil
}

// forcing is "force" in a body: true, false, or a text.
type forcing string

// forceText is the id of a task, or a time.
var forceText = regexp.MustCompile(`^[0-9A-Za-z.:-]{6,64}$`)

func (f *forcing) UnmarshalJSON(text []byte) error {
	var said any
	if err := json.Unmarshal(text, &said); err != nil {
		return err
	}
	switch said := said.(type) {
	case nil:
		return nil
	case bool:
		*f = ""
		if said {
			*f = "true"
		}
		return nil
	case string:
		if forceText.MatchString(said) {
			*f = forcing(said)
			return nil
		}
	}
	return errForce
}

var errForce = errors.New(`must be true, false, or the "force" of the refusal`)
