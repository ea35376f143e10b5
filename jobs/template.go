package jobs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/lockstep-scheduler/lockstep/internal/plainjson"
)

// Template is what is sent of a [Notification] in its place: JSON with fields of the notification in its texts, as in
//
//	{"text": "*{{.job}}*: {{.event}}{{if .reason}}, {{.reason}}{{end}}", "icon": ":bell:"}
//
// A text is one of package text/template, with the fields of the notification by their names in JSON ({{.scheduled_at}}), constants, if, else, the
// functions and, or, not, eq, ne, lt, le, gt, ge and len, and
//
//   - cut 200 .error: at most 200 characters
//   - line .error: the first line
//   - upper .event: in capitals
//   - slack .error: as Slack shows it as it is: & < > are escaped
//
// A field that does not apply is empty; attempt and count are numbers. Names of objects are taken as they are.
//
// Each text is filled in by itself, and then encoded as JSON: whatever a field holds, the body has the form of the template.
type Template struct {
	source []byte // compact JSON, for identity
	root   node
}

const (
	maxTemplate      = 64 << 10 // bytes of its JSON
	maxTemplateDepth = 50
	// maxTemplateText bounds a text that is filled in; what is longer is cut.
	maxTemplateText = 16 << 10
)

// node is a value of the template: one of the four.
type node struct {
	object []member
	list   []node
	text   *templateText
	plain  json.RawMessage // a number, a truth or null
}

type member struct {
	name  string
	value node
}

// ParseTemplate reads a template. Errors are [ErrInvalid], and say which text is wrong, and what to write.
func ParseTemplate(body []byte) (*Template, error) {
	if len(body) > maxTemplate {
		return nil, fmt.Errorf("%w template: it has %d bytes, at most %d are allowed", ErrInvalid, len(body), maxTemplate)
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	root, err := readNode(d, 0)
	if err == nil && root.object == nil {
		err = errors.New("it is no object; write {\"text\": \"{{.text}}\"} or the like")
	}
	if err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("something follows its end")
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w template: %w", ErrInvalid, err)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, body); err != nil {
		return nil, fmt.Errorf("%w template: %w", ErrInvalid, err)
	}
	return &Template{compact.Bytes(), root}, nil
}

func readNode(d *json.Decoder, depth int) (node, error) {
	if depth > maxTemplateDepth {
		return node{}, fmt.Errorf("it is nested more than %d deep", maxTemplateDepth)
	}
	token, err := d.Token()
	if err != nil {
		return node{}, fmt.Errorf("it is not JSON: %w", err)
	}
	switch value := token.(type) {
	case json.Delim:
		n := node{object: []member{}}
		if value == '[' {
			n = node{list: []node{}}
		}
		for d.More() {
			m := member{}
			if value == '{' {
				name, err := d.Token()
				if err != nil {
					return node{}, fmt.Errorf("it is not JSON: %w", err)
				}
				m.name, _ = name.(string)
			}
			if m.value, err = readNode(d, depth+1); err != nil {
				return node{}, err
			}
			if value == '[' {
				n.list = append(n.list, m.value)
			} else {
				n.object = append(n.object, m)
			}
		}
		if _, err := d.Token(); err != nil {
			return node{}, fmt.Errorf("it is not JSON: %w", err)
		}
		return n, nil
	case string:
		text, err := parseTemplateText(value)
		return node{text: text}, err
	default:
		plain, err := json.Marshal(value)
		return node{plain: plain}, err
	}
}

// Body is what is sent of n, as JSON. A text that cannot be filled in, as it compares what cannot be compared, has n.Text in its place.
func (t *Template) Body(n Notification) []byte {
	var b bytes.Buffer
	t.root.write(&b, fieldsOf(n), n.Text)
	return b.Bytes()
}

func (n node) write(b *bytes.Buffer, fields map[string]any, otherwise string) {
	switch {
	case n.text != nil:
		writeJSONText(b, n.text.fill(fields, otherwise))
	case n.object != nil:
		b.WriteByte('{')
		for i, m := range n.object {
			if i > 0 {
				b.WriteByte(',')
			}
			writeJSONText(b, m.name)
			b.WriteByte(':')
			m.value.write(b, fields, otherwise)
		}
		b.WriteByte('}')
	case n.list != nil:
		b.WriteByte('[')
		for i, item := range n.list {
			if i > 0 {
				b.WriteByte(',')
			}
			item.write(b, fields, otherwise)
		}
		b.WriteByte(']')
	default:
		b.Write(n.plain)
	}
}

func writeJSONText(b *bytes.Buffer, text string) {
	quoted, _ := plainjson.Marshal(strings.ToValidUTF8(text, "�")) // texts always encode
	b.Write(quoted)
}

// Send is a handler for [Notify] that runs h with what the template makes of the notification as the payload. The template is a part of its
// identity.
func (t *Template) Send(h Handler) Handler {
	if missing(h) {
		return h
	}
	return templated{t, h}
}

type templated struct {
	template *Template
	inner    Handler
}

func (s templated) Run(ctx context.Context, t Task, out io.Writer) error {
	var n Notification
	if err := json.Unmarshal(t.Payload, &n); err != nil {
		return Permanent(fmt.Errorf("the payload is no notification: %w", err))
	}
	t.Payload = s.template.Body(n)
	t.PayloadSize = len(t.Payload)
	return s.inner.Run(ctx, t, out)
}

func (s templated) Unwrap() Handler { return s.inner }

func (s templated) Identity() string {
	return fmt.Sprintf("template %s: %s", s.template.source, identify(s.inner))
}

// Same reports whether the other one sends the same by the same handler.
func (s templated) Same(other Handler) bool {
	as, is := other.(templated)
	return is && bytes.Equal(s.template.source, as.template.source) && sameHandler(s.inner, as.inner)
}
