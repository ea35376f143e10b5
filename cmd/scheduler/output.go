package main

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
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
