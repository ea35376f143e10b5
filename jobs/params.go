package jobs

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/lockstep-scheduler/lockstep/internal/clip"
	"github.com/lockstep-scheduler/lockstep/internal/limits"
	"github.com/lockstep-scheduler/lockstep/internal/plainjson"
)

// MaxParams is how large Job.Params may be, in bytes of JSON.
const MaxParams = 64 << 10

// Params is the JSON Schema of a job's runs by hand, compiled. A nil one takes any payload.
type Params struct{ schema *jsonschema.Schema }

// CompileParams compiles the job's Params; nil if it has none. They are a JSON Schema of draft 2020-12, unless $schema names an
// earlier one, in one document: a $ref leads to a part of it. format is checked. The error is of [*FieldError]s, whose
// paths begin with params and go on to the part that is wrong.
func (j Job) CompileParams() (*Params, error) {
	var p problems
	compiled := p.params("params", j.Params)
	return compiled, p.err()
}

// params checks a JSON Schema, and returns it compiled; nil if there is none, or it is wrong.
func (p *problems) params(path string, v any) *Params {
	if v == nil {
		return nil
	}
	text, err := plainjson.Marshal(v)
	switch {
	case err != nil:
		p.add(path, "cannot be written as JSON: %v", err)
		return nil
	case len(text) > MaxParams:
		p.add(path, "%d bytes, at most %d are allowed; describe less of the payload", len(text), MaxParams)
		return nil
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		p.add(path, "not valid JSON: %v", err)
		return nil
	}
	if _, is := doc.(map[string]any); !is {
		p.add(path, "must be a JSON Schema, as in {type: object, required: [to]}")
		return nil
	}
	if at, wrong := unfitNumber(doc, nil); wrong != "" {
		p.add(path+keyPath(at), "%s", wrong)
		return nil
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	c.UseLoader(alone{})
	const url = "urn:lockstep:params"
	schema, err := (*jsonschema.Schema)(nil), c.AddResource(url, doc)
	if err == nil {
		schema, err = c.Compile(url)
	}
	if err == nil {
		return &Params{schema}
	}
	invalid, is := errors.AsType[*jsonschema.SchemaValidationError](err)
	if !is {
		p.add(path, "not a JSON Schema: %s", clip.Text(strings.ReplaceAll(err.Error(), url, ""), 300))
		return nil
	}
	wrong, _ := errors.AsType[*jsonschema.ValidationError](invalid.Err)
	if wrong == nil {
		p.add(path, "not a JSON Schema: %s", clip.Text(invalid.Err.Error(), 300))
		return nil
	}
	for _, one := range violations(wrong) {
		p.add(path+keyPath(one.at), "not a JSON Schema: %s", one.said)
	}
	return nil
}

// alone refuses every other document that a schema refers to.
type alone struct{}

func (alone) Load(url string) (any, error) {
	return nil, fmt.Errorf("a $ref or $schema leads to %.80q, and no other document is read; put it into $defs", url)
}

// Check reports what is wrong with the payload of a run by hand: nil, or joined [*FieldError]s, at most 20, sorted. Their paths are payload, and
// behind it the JSON pointer of the field, as in "payload/to/0". Where anyOf or oneOf accepts nothing, one of them says what each alternative
// refuses, in the order of the schema: "value must be 'latest', or 'x' does not match pattern '^[0-9]+$'".
func (p *Params) Check(payload json.RawMessage) error {
	if p == nil {
		return nil
	}
	if len(payload) == 0 {
		payload = json.RawMessage("null")
	}
	var wrong problems
	for _, one := range p.problems(payload) {
		wrong.add("payload"+pointer(one.at), "%s, by the job's params", one.said)
	}
	return wrong.err()
}

// problems are what is wrong with a payload, which is JSON or not.
func (p *Params) problems(payload json.RawMessage) []violation {
	if p == nil {
		return nil
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(payload))
	if err != nil {
		return []violation{{nil, "not valid JSON"}}
	}
	if at, why := unfitNumber(value, nil); why != "" {
		return []violation{{at, why}}
	}
	if err = p.schema.Validate(value); err == nil {
		return nil
	}
	whole, is := errors.AsType[*jsonschema.ValidationError](err)
	if !is {
		return []violation{{nil, clip.Text(err.Error(), 300)}}
	}
	return violations(whole)
}

// ownPayload checks the payload that a definition gives its job, by the params of the same definition.
func (p *problems) ownPayload(path string, params *Params, payload json.RawMessage) {
	for _, one := range params.problems(payload) {
		p.add(path+keyPath(one.at), "%s, by the job's params; write a payload that they accept, or change params", one.said)
	}
}

// mostWrong bounds what is said about one document.
const mostWrong = 20

// violation is what is wrong at a place of a payload.
type violation struct {
	at   []string
	said string
}

// violations are what is wrong, sorted: the validator goes through objects in any order.
func violations(e *jsonschema.ValidationError) (all []violation) {
	all = gather(e)
	slices.SortStableFunc(all, func(a, b violation) int { return cmp.Or(slices.Compare(a.at, b.at), cmp.Compare(a.said, b.said)) })
	all = slices.CompactFunc(all, func(a, b violation) bool { return a.said == b.said && slices.Equal(a.at, b.at) })
	return all[:min(len(all), mostWrong)]
}

// gather returns the innermost parts of an error, and those of alternatives as one.
func gather(e *jsonschema.ValidationError) (all []violation) {
	switch {
	case len(e.Causes) == 0:
		return []violation{{e.InstanceLocation, said(e)}}
	case isAlternatives(e) && len(e.Causes) > 1:
		return []violation{{e.InstanceLocation, alternatives(e)}}
	}
	for _, cause := range e.Causes {
		all = append(all, gather(cause)...)
	}
	return all
}

func isAlternatives(e *jsonschema.ValidationError) bool {
	switch e.ErrorKind.(type) {
	case *kind.AnyOf, *kind.OneOf:
		return true
	}
	return false
}

// alternatives says what each of several schemas, one of which has to accept a value, has against it.
func alternatives(e *jsonschema.ValidationError) string {
	var each []string
	for _, cause := range e.Causes {
		var parts []string
		for _, one := range violations(cause) {
			if inside := one.at[min(len(e.InstanceLocation), len(one.at)):]; len(inside) > 0 {
				one.said = pointer(inside)[1:] + ": " + one.said
			}
			parts = append(parts, one.said)
		}
		if text := strings.Join(parts, " and "); !slices.Contains(each, text) {
			each = append(each, text)
		}
	}
	return clip.Text(strings.Join(each, ", or "), 600)
}

var english = message.NewPrinter(language.English)

func said(e *jsonschema.ValidationError) string {
	if more, is := e.ErrorKind.(*kind.AdditionalProperties); is {
		slices.Sort(more.Properties)
	}
	return clip.Text(e.ErrorKind.LocalizedString(english), 300)
}

// pointer is a JSON pointer.
func pointer(at []string) string {
	var b strings.Builder
	for _, part := range at {
		b.WriteByte('/')
		b.WriteString(strings.NewReplacer("~", "~0", "/", "~1").Replace(part))
	}
	return clip.Text(b.String(), 200)
}

// keyPath is a path as other fields of a definition have it.
func keyPath(at []string) string {
	var b strings.Builder
	for _, part := range at {
		if _, err := strconv.Atoi(part); err == nil {
			b.WriteString("[" + part + "]")
		} else {
			b.WriteString("." + part)
		}
	}
	return b.String()
}

// unfitNumber finds a number that no comparison can be made with at a bearable cost: the exponents of JSON have no bound.
func unfitNumber(v any, at []string) (where []string, why string) {
	switch v := v.(type) {
	case json.Number:
		_, exponent, has := strings.Cut(strings.ToLower(v.String()), "e")
		n, err := strconv.Atoi(exponent)
		if has && (err != nil || n < -limits.Exponent || n > limits.Exponent) {
			return at, fmt.Sprintf("%.40s is out of range for a number; its exponent may be −%d…%d", v, limits.Exponent, limits.Exponent)
		}
	case []any:
		for i, item := range v {
			if where, why = unfitNumber(item, append(at[:len(at):len(at)], strconv.Itoa(i))); why != "" {
				return where, why
			}
		}
	case map[string]any:
		for key, item := range v {
			if where, why = unfitNumber(item, append(at[:len(at):len(at)], key)); why != "" {
				return where, why
			}
		}
	}
	return nil, ""
}
