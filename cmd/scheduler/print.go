package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"go.yaml.in/yaml/v3"

	"github.com/lockstep-scheduler/lockstep/config"
)

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

// refusal is a configuration's errors as JSON or YAML.
type refusal struct {
	Errors config.Errors `json:"errors"`
}

// refuse prints all errors of a configuration: as text on stderr, or with -o json and -o yaml on stdout.
func (a *app) refuse(bad config.Errors) {
	if a.output == "table" {
		fmt.Fprintln(a.stderr, bad.Error())
		return
	}
	if err := a.print(refusal{bad}, nil); err != nil {
		fmt.Fprintln(a.stderr, bad.Error())
	}
}
