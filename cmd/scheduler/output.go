package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/lockstep-scheduler/lockstep/config"
)

// field is one line of the details of a thing.
type field struct{ name, value string }

// fields writes one line per field; empty ones are left out.
func fields(w io.Writer, all ...field) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, f := range all {
		if f.value != "" {
			fmt.Fprintf(t, "%s:\t%s\n", f.name, cellText(f.value))
		}
	}
	return t.Flush()
}

// utc formats a time; "" for none.
func utc(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05")
}

// ago formats the distance of t from now: "3s ago", "in 5m"; "" for none.
func (a *app) ago(t time.Time) string {
	switch d := a.now().Sub(t); {
	case t.IsZero():
		return ""
	case d < 0:
		return "in " + short(-d)
	default:
		return short(d) + " ago"
	}
}

// when formats t and its distance.
func (a *app) when(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return utc(t) + " UTC (" + a.ago(t) + ")"
}

// short formats a duration (≥ 0) in its largest unit.
func short(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dd", d/(24*time.Hour))
}

// number formats a number; "" for 0.
func number(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

func pairs(m map[string]string) string {
	var words []string
	for _, key := range slices.Sorted(maps.Keys(m)) {
		words = append(words, key+"="+m[key])
	}
	return strings.Join(words, " ")
}

// raw writes a job's output, ended by a line break: escaped on a terminal, else byte for byte.
func (a *app) raw(output []byte) error {
	if len(output) > 0 && !bytes.HasSuffix(output, []byte("\n")) {
		output = append(output, '\n')
	}
	_, err := a.sink().Write(output)
	return err
}

// formats are the values of --output.
var formats = []string{"table", "json", "yaml"}

// print writes v as JSON or YAML (-o json, -o yaml: the keys of the json tags), or calls table.
func (a *app) print(v any, table func(w io.Writer) error) error {
	switch a.output {
	case "json":
		enc := json.NewEncoder(a.sink())
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		return enc.Encode(v)
	case "yaml":
		return printYAML(a.sink(), v)
	default:
		return table(a.stdout)
	}
}

// sink is for machine-readable output: byte for byte, and on a terminal escaped by visible. The escapes are valid in
// JSON and in double-quoted YAML.
func (a *app) sink() io.Writer {
	if isTerminal(a.exact) {
		return a.stdout
	}
	return a.exact
}

// printYAML converts JSON, so that keys and their order are the same in both. Characters that JSON allows and YAML does
// not are escaped.
func printYAML(w io.Writer, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(show(string(data))), &doc); err != nil {
		return err
	}
	blockStyle(&doc)
	enc := yaml.NewEncoder(w)
	enc.SetIndent(2)
	if err := enc.Encode(&doc); err != nil {
		return err
	}
	return enc.Close()
}

// blockStyle sets block style, with double quotes where a value needs escapes.
func blockStyle(n *yaml.Node) {
	n.Style = 0
	if strings.ContainsFunc(n.Value, misleads) {
		n.Style = yaml.DoubleQuotedStyle
	}
	for _, child := range n.Content {
		blockStyle(child)
	}
}

// table writes one row per item, in aligned columns below a heading; an empty cell shows as "-".
func table[T any](w io.Writer, heading string, items []T, row func(T) []string) error {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(t, strings.Join(strings.Fields(heading), "\t"))
	for _, item := range items {
		cells := row(item)
		for i, cell := range cells {
			cells[i] = cellText(cell)
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	return t.Flush()
}

// textLine prints a line, for print.
func textLine(line string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := fmt.Fprintln(w, line)
		return err
	}
}

// refuse prints all errors of a configuration: as text on stderr, or with -o json and -o yaml on stdout.
func (a *app) refuse(bad config.Errors) {
	if a.output == "table" {
		fmt.Fprintln(a.stderr, bad.Error())
		return
	}
	if err := a.print(map[string]config.Errors{"errors": bad}, nil); err != nil {
		fmt.Fprintln(a.stderr, bad.Error())
	}
}
