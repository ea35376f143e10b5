package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"go.yaml.in/yaml/v3"
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

// table writes rows in aligned columns below a heading; an empty cell shows as "-".
func table(w io.Writer, heading string, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(t, strings.Join(strings.Fields(heading), "\t"))
	for _, row := range rows {
		for i, cell := range row {
			if i > 0 {
				fmt.Fprint(t, "\t")
			}
			fmt.Fprint(t, cellText(cell))
		}
		fmt.Fprintln(t)
	}
	return t.Flush()
}
