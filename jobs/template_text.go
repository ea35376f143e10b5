package jobs

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"text/template"
	"text/template/parse"
	"time"
	"unicode/utf8"

	"github.com/lockstep-scheduler/lockstep/internal/clip"
	nearkey "github.com/lockstep-scheduler/lockstep/internal/nearest"
)

// templateText is a text of a template.
type templateText struct {
	plain    string             // without fields
	compiled *template.Template // with some; nil: there are none
}

// textFunctions are the functions of texts, beside those of package text/template that are listed in textBuiltins.
var textFunctions = template.FuncMap{
	"cut": cutText,
	"line": func(text string) string {
		line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
		return strings.TrimSpace(line)
	},
	"upper": strings.ToUpper,
	"slack": strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace,
}

var textBuiltins = []string{"and", "or", "not", "eq", "ne", "lt", "le", "gt", "ge", "len"}

// knownFunctions are the names of all functions.
var knownFunctions = func() string {
	names := append(slices.Collect(maps.Keys(textFunctions)), textBuiltins...)
	slices.Sort(names)
	return strings.Join(names, ", ")
}()

var unknownFunction = regexp.MustCompile(`function "(.*)" not defined`)

// unparsed is what package text/template says of a text, without its name for it, and with what to do where that is known.
func unparsed(err error) error {
	line, what, _ := strings.Cut(strings.TrimPrefix(err.Error(), "template: text:"), ": ")
	switch unknown := unknownFunction.FindStringSubmatch(what); {
	case what == "unexpected EOF":
		what = "an {{if}} has no {{end}}"
	case strings.HasPrefix(what, "unclosed action"):
		what = "a {{ has no }}"
	case unknown != nil:
		what = "the function " + unknown[1] + " is not known; there are " + knownFunctions
	}
	if line != "1" {
		what = "line " + line + ": " + what
	}
	return errors.New(what)
}

// cutText is at most n characters of a text.
func cutText(n int, text string) (string, error) {
	if n < 1 {
		return "", fmt.Errorf("cut %d: must be 1 or more", n)
	}
	if utf8.RuneCountInString(text) <= n {
		return text, nil
	}
	return string([]rune(text)[:n-1]) + "…", nil
}

// notificationFields are the names of a notification's fields in JSON, sorted.
var notificationFields = func() (names []string) {
	for field := range reflect.TypeFor[Notification]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}()

// CheckTemplateText returns what is wrong with one text of a [Template]; nil if nothing is.
func CheckTemplateText(text string) error {
	_, err := parseTemplateText(text)
	return err
}

func parseTemplateText(text string) (*templateText, error) {
	if !strings.Contains(text, "{{") {
		return &templateText{plain: text}, nil
	}
	wrong := func(err error) (*templateText, error) {
		return nil, fmt.Errorf("text %.80q: %w", text, err)
	}
	compiled, err := template.New("text").Option("missingkey=error").Funcs(textFunctions).Parse(text)
	if err != nil {
		return wrong(unparsed(err))
	}
	if len(compiled.Templates()) > 1 {
		return wrong(errors.New("define and block are not allowed"))
	}
	if err := checkNode(compiled.Root); err != nil {
		return wrong(err)
	}
	t := &templateText{compiled: compiled}
	for _, sample := range []Notification{{}, sampleNotification} {
		if _, err := t.render(fieldsOf(sample)); err != nil {
			return wrong(err)
		}
	}
	return t, nil
}

// sampleNotification has every field.
var sampleNotification = Notification{
	ID: "failed/1", Event: EventFailed, Text: "text", Name: "name", Job: "job", Pool: "pool", ScheduledAt: time.Unix(1, 0), Until: time.Unix(2, 0), Count: 2, TaskID: "1",
	Attempt: 3, Replica: "replica", Reason: "reason", ReasonCode: "exit_code", Error: "error", At: time.Unix(3, 0),
}

// checkNode allows what can neither run for long nor reach anything but fields.
func checkNode(n parse.Node) error {
	switch n := n.(type) {
	case nil, *parse.TextNode, *parse.CommentNode:
	case *parse.ListNode:
		if n == nil {
			return nil
		}
		for _, one := range n.Nodes {
			if err := checkNode(one); err != nil {
				return err
			}
		}
	case *parse.ActionNode:
		return checkPipe(n.Pipe)
	case *parse.IfNode:
		return errors.Join(checkPipe(n.Pipe), checkNode(n.List), checkNode(n.ElseList))
	default:
		return fmt.Errorf("%s is not allowed; only fields, functions and if are", n)
	}
	return nil
}

func checkPipe(p *parse.PipeNode) error {
	if len(p.Decl) > 0 {
		return fmt.Errorf("%s: variables are not allowed", p)
	}
	for _, command := range p.Cmds {
		for _, arg := range command.Args {
			if err := checkArgument(arg); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkArgument(arg parse.Node) error {
	switch arg := arg.(type) {
	case *parse.FieldNode:
		if len(arg.Ident) == 1 && slices.Contains(notificationFields, arg.Ident[0]) {
			return nil
		}
		hint := "there are " + strings.Join(notificationFields, ", ")
		if meant := nearkey.Key(arg.Ident[0], notificationFields); meant != "" {
			hint = "did you mean ." + meant + "?"
		}
		return fmt.Errorf("a notification has no field %s; %s", arg, hint)
	case *parse.IdentifierNode:
		if textFunctions[arg.Ident] != nil || slices.Contains(textBuiltins, arg.Ident) {
			return nil
		}
		return fmt.Errorf("the function %s is not allowed; there are %s", arg, knownFunctions)
	case *parse.StringNode, *parse.NumberNode, *parse.BoolNode:
		return nil
	case *parse.PipeNode:
		return checkPipe(arg)
	}
	return fmt.Errorf("%s is not allowed; write a field, as in {{.job}}", arg)
}

// fill is the text with the fields, or otherwise if it cannot be made.
func (t *templateText) fill(fields map[string]any, otherwise string) string {
	if t.compiled == nil {
		return t.plain
	}
	text, err := t.render(fields)
	if err != nil {
		text = otherwise
	}
	return clip.Text(text, maxTemplateText)
}

func (t *templateText) render(fields map[string]any) (string, error) {
	var b strings.Builder
	if err := t.compiled.Execute(&b, fields); err != nil {
		_, what, _ := strings.Cut(err.Error(), ` executing "text" at `)
		return "", errors.New(cmp.Or(what, err.Error()))
	}
	return b.String(), nil
}

// fieldsOf are the fields of a notification by their names in JSON: texts, and numbers; those that do not apply are empty.
func fieldsOf(n Notification) map[string]any {
	text, _ := json.Marshal(n)
	all := map[string]any{}
	_ = json.Unmarshal(text, &all)
	for _, name := range notificationFields {
		if all[name] == nil {
			all[name] = ""
		}
	}
	all["attempt"], all["count"] = n.Attempt, n.Count
	if n.At.IsZero() {
		all["at"] = ""
	}
	return all
}
