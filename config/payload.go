package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/lockstep-scheduler/lockstep/internal/plainjson"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// payload converts a YAML value to JSON, with keys in their order; nil if it cannot.
func (r *reader) payload(n *yaml.Node) any {
	var b bytes.Buffer
	if !r.writeJSON(&b, n) {
		return nil
	}
	if b.Len() > jobs.MaxPayload {
		r.fail(n, fmt.Sprintf("is larger than %d KiB", jobs.MaxPayload>>10), "let the job fetch it")
		return nil
	}
	if len(r.report.found) > 0 && plainjson.Repeated(b.Bytes()) != nil {
		return nil // it was refused where the key stands
	}
	return json.RawMessage(b.Bytes())
}

// writeJSON stops soon after the payload became too large: aliases may expand a lot.
func (r *reader) writeJSON(b *bytes.Buffer, n *yaml.Node) (ok bool) {
	if b.Len() > jobs.MaxPayload {
		return true
	}
	n = deref(n)
	ok = true
	separate := func() {
		if last := b.Bytes()[b.Len()-1]; last != '[' && last != '{' {
			b.WriteByte(',')
		}
	}
	switch n.Kind {
	case yaml.SequenceNode:
		b.WriteByte('[')
		r.items(n, func(item *yaml.Node) {
			separate()
			ok = r.writeJSON(b, item) && ok
		})
		b.WriteByte(']')
	case yaml.MappingNode:
		b.WriteByte('{')
		r.each(n, func(key, value *yaml.Node) {
			separate()
			writeText(b, key.Value)
			b.WriteByte(':')
			ok = r.writeJSON(b, value) && ok
		})
		b.WriteByte('}')
	default:
		return r.writeScalar(b, n)
	}
	return ok
}

var jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)

func (r *reader) writeScalar(b *bytes.Buffer, n *yaml.Node) bool {
	switch n.ShortTag() {
	case "!!null":
		b.WriteString("null")
	case "!!bool":
		b.WriteString(strconv.FormatBool(n.Value[0] == 't' || n.Value[0] == 'T'))
	case "!!int", "!!float":
		if jsonNumber.MatchString(n.Value) {
			b.WriteString(n.Value)
			return true
		}
		if octal.MatchString(n.Value) {
			r.fail(n, quote(n)+" could be decimal or octal", "quote it, or write it without the leading 0")
			return false
		}
		var value any
		if err := n.Decode(&value); err != nil {
			r.fail(n, quote(n)+" is not a number", "quote it")
			return false
		}
		if f, isFloat := value.(float64); isFloat && (math.IsNaN(f) || math.IsInf(f, 0)) {
			r.fail(n, quote(n)+" has no form in JSON", "quote it")
			return false
		}
		data, err := json.Marshal(value)
		if err != nil {
			r.fail(n, quote(n)+" is not a number", "quote it")
			return false
		}
		b.Write(data)
	default:
		writeText(b, n.Value)
	}
	return true
}

func writeText(b *bytes.Buffer, text string) {
	quoted, _ := plainjson.Marshal(text) // strings always encode
	b.Write(quoted)
}
