package jobs

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"
	"unicode"

	"github.com/lockstep-scheduler/lockstep/internal/unwrap"
)

// payloadShown is up to how many bytes a payload is part of what is shown of a definition.
const payloadShown = 1 << 10

// Shown is the definition as people may see it: JSON of what decides how the job runs, by the names that a file has for it, with defaults filled
// in, without what is empty. It is what [Job.Hash] is of, but for values that may be secret: a handler is what its Describe says, so that no
// values of variables and headers are in it, and a payload above 1 KiB is its size and a digest. So two definitions with different hashes may be shown alike.
func (j Job) Shown() json.RawMessage { return j.ShownWithin(nil) }

// ShownWithin is Shown with what is in the calendars of the job, as calendar_times by their names: see [Compiler.Calendars].
func (j Job) ShownWithin(calendars map[string]string) json.RawMessage {
	j = j.WithDefaults()
	j.Schedule, j.Schedules = "", j.Specs()
	j.Description, j.Labels = "", nil
	payload, _ := j.EncodePayload() // a valid job has one that encodes
	j.Payload = nil
	all, _ := shown(reflect.ValueOf(j)).(map[string]any)
	if all == nil {
		all = map[string]any{}
	}
	times := map[string]string{}
	for _, name := range j.Calendars.names() {
		if is := calendars[name]; is != "" {
			times[name] = is
		}
	}
	if len(times) > 0 {
		all["calendar_times"] = times
	}
	switch {
	case len(payload) > payloadShown:
		all["payload_size"], all["payload_sha256"] = len(payload), fmt.Sprintf("%x", sha256.Sum256(payload))
	case len(payload) > 0:
		all["payload"] = payload
	}
	text, err := json.Marshal(all)
	if err != nil {
		return json.RawMessage(`{}`)
	}
	return text
}

// shown is a value as JSON has it; nil: it is empty.
func shown(v reflect.Value) any {
	if !v.IsValid() {
		return nil
	}
	switch is := v.Interface().(type) {
	case time.Duration:
		if is != 0 {
			return is.String()
		}
		return nil
	case time.Time:
		if !is.IsZero() {
			return is.UTC().Format(time.RFC3339Nano)
		}
		return nil
	case Handler:
		return handlerShown(is)
	case fmt.Stringer:
		if v.IsZero() {
			return nil
		}
		return is.String()
	case json.RawMessage:
		if len(is) > 0 && json.Valid(is) {
			return is
		}
		return nil
	}
	switch v.Kind() {
	case reflect.Interface, reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return shown(v.Elem())
	case reflect.Struct:
		all := map[string]any{}
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				if is := shown(v.Field(i)); is != nil {
					all[snake(f.Name)] = is
				}
			}
		}
		return unlessEmpty(all, len(all))
	case reflect.Map:
		all := map[string]any{}
		for key, value := range v.Seq2() {
			all[fmt.Sprint(key.Interface())] = shown(value)
		}
		return unlessEmpty(all, len(all))
	case reflect.Slice, reflect.Array:
		all := make([]any, v.Len())
		for i := range all {
			all[i] = shown(v.Index(i))
		}
		return unlessEmpty(all, len(all))
	case reflect.Func, reflect.Chan:
		return nil
	}
	if v.IsZero() {
		return nil
	}
	return v.Interface()
}

// unlessEmpty is v unless it has nothing in it.
func unlessEmpty[V any](v V, n int) any {
	if n == 0 {
		return nil
	}
	return v
}

// handlerShown is what a handler says of itself; else its type.
func handlerShown(h Handler) string {
	if d, ok := unwrap.As[Described](h); ok {
		return d.Describe()
	}
	return fmt.Sprintf("%T", unwrap.Innermost(h))
}

// snake is the name in a file of a field: "OnLost" is on_lost.
func snake(field string) string {
	var b strings.Builder
	for i, r := range field {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
