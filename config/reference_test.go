package config_test

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	referenceFile = "../docs/configuration.md"
	schemaFile    = "../docs/lockstep.schema.json"
	generatedMark = "<!-- generated from here on: go generate ./config -->\n"
)

// docs/configuration.md and docs/lockstep.schema.json describe each key as the program accepts it. go generate ./config
// writes both.
func TestReferenceIsFresh(t *testing.T) {
	top, entries := probe(t), exampleEntries(t)
	old, err := os.ReadFile(referenceFile)
	if err != nil {
		t.Fatal(err)
	}
	head, _, found := strings.Cut(string(old), generatedMark)
	if !found {
		t.Fatalf("%s has lost the line %s", referenceFile, generatedMark)
	}
	fresh(t, referenceFile, []byte(head+generatedMark+reference(t, top, entries)))
	fresh(t, schemaFile, schemaText(t, top, entries))
}

// fresh holds that a file has a content; with -update it writes it.
func fresh(t *testing.T, file string, want []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(got), string(want)); diff != "" {
		t.Errorf("%s is stale, run go generate ./config (-file +fresh)\n%s", file, diff)
	}
}

// reference writes a table for each map of the configuration.
func reference(t *testing.T, top *shape, entries map[string]entry) string {
	t.Helper()
	var b bytes.Buffer
	section(t, &b, nil, top, entries)
	return b.String()
}

func section(t *testing.T, b *bytes.Buffer, path []string, s *shape, entries map[string]entry) {
	t.Helper()
	title := "`" + strings.ReplaceAll(strings.Join(path, "."), "*", "NAME") + "`"
	if len(path) == 0 {
		title = "Top level"
	}
	fmt.Fprintf(b, "\n## %s\n", title)
	if e, found := entryOf(path, entries); found && e.why != "" && !slices.Contains(path, "*") {
		fmt.Fprintf(b, "\n%s.\n", sentence(e.why))
	}
	fmt.Fprint(b, "\n| key | takes | default | why |\n|---|---|---|---|\n")
	keys := ordered(path, s, entries)
	for _, key := range keys {
		row(t, b, path, key, s.keys[key], entries)
	}
	for _, key := range keys {
		below, at := s.keys[key], append(slices.Clone(path), key)
		if below.kind == mapping && below.value.kind == object {
			below, at = below.value, append(at, "*")
		}
		if below.kind == object && !describedElsewhere(at) {
			section(t, b, at, below, entries)
		}
	}
}

// describedElsewhere reports whether a map has its table at another path already.
func describedElsewhere(path []string) bool {
	return elsewhere(path) != ""
}

// elsewhere is the section that describes a map with several positions.
func elsewhere(path []string) string {
	whole := strings.Join(path, ".")
	last := path[len(path)-1]
	switch {
	case whole == "defaults": // the jobs' table marks what may stand there
		return ""
	case strings.HasPrefix(whole, "lock.") && last == "tls":
		return "store.tls"
	case strings.HasPrefix(whole, "defaults."):
		return "jobs.NAME." + last
	case strings.HasPrefix(whole, "pools.*.") && last != "*" && (last == "http" || last == "retries" || last == "notify"):
		return "jobs.NAME." + last
	case strings.HasSuffix(whole, "kinds.*.http") || strings.HasSuffix(whole, ".notify.http"):
		return "jobs.NAME.http"
	}
	return ""
}

func row(t *testing.T, b *bytes.Buffer, path []string, key string, s *shape, entries map[string]entry) {
	t.Helper()
	at := append(slices.Clone(path), key)
	e, found := entryOf(at, entries)
	if !found {
		t.Errorf("config.example.yaml lacks %s", strings.Join(at, "."))
	}
	label := "`" + key + "`"
	switch {
	case s.kind == mapping && s.value.kind == object:
		label = fmt.Sprintf("[`%s`](#%s)", key, anchor(strings.Join(at, ".")+".NAME"))
	case s.kind == object:
		to := elsewhere(at)
		if to == "" {
			to = strings.Join(at, ".")
		}
		label = fmt.Sprintf("[`%s`](#%s)", key, anchor(to))
	}
	what := takes(s)
	if _, err := strconv.Atoi(e.value); s.kind == reserved && err == nil {
		what = "`" + e.value + "` only" // which may be written
	}
	fmt.Fprintf(b, "| %s | %s | %s | %s |\n", label, cell(what), cell(standard(at, s, e)), cell(e.why))
}

func takes(s *shape) string {
	switch s.kind {
	case number:
		return fmt.Sprintf("whole number %d–%d", s.low, s.high)
	case duration:
		if s.zero {
			return "duration, at least " + s.least + ", or `0s`"
		}
		if s.least != "" {
			return "duration, at least " + s.least
		}
	case rate:
		return "rate, as in `50/s`, or `0`"
	case choice:
		return strings.TrimSuffix("`"+strings.Join(s.choices, "`, `")+"`", ", ``") // empty is the default then
	case list:
		if s.orOne {
			return takes(s.item) + ", or a list"
		}
		return "list of " + takes(s.item)
	case mapping:
		if s.value.kind == object {
			return "map by name"
		}
		return "map of " + takes(s.value)
	case object:
		if s.orText {
			return "text, or map of `" + strings.Join(slices.Sorted(maps.Keys(s.keys)), "`, `") + "`"
		}
		return "map"
	case reserved:
		return "not yet"
	case theOne:
		return "`1`"
	case expressed:
		return "[expression](schedules.md)"
	case moment:
		return "time, as in `2026-12-24T18:00:00Z`"
	}
	return string(s.kind)
}

// standard is the default, or an example if there is none.
func standard(path []string, s *shape, e entry) string {
	ownDefault := path[0] != "jobs" || e.shared
	switch {
	case s.kind == theOne:
		return "required"
	case s.kind == object || s.kind == mapping && s.value.kind == object || e.value == "":
		return ""
	case e.value == `""` || e.value == "{}" || e.value == "[]":
		return "none"
	case (e.commented || !ownDefault) && !e.standard:
		return "none; as in `" + e.value + "`"
	}
	return "`" + e.value + "`"
}

func entryOf(path []string, entries map[string]entry) (entry, bool) {
	if len(path) == 0 {
		return entry{}, false
	}
	for _, withComments := range []bool{false, true} {
		for _, place := range places(path) {
			if e, found := entries[place]; found && (withComments || !e.commented) {
				e.shared = strings.HasPrefix(place, "defaults.")
				switch { // what is a job's or pool's own comes first
				case path[0] != "defaults" && e.shared:
					e.line += 2_000_000_000
				case path[0] == "jobs" && strings.HasPrefix(place, "pools."):
					e.line += 1_000_000_000
				}
				return e, true
			}
		}
	}
	return entry{}, false
}

// ordered are the keys of a map in the order of the example.
func ordered(path []string, s *shape, entries map[string]entry) []string {
	return slices.SortedFunc(maps.Keys(s.keys), func(a, b string) int {
		ea, _ := entryOf(append(slices.Clone(path), a), entries)
		eb, _ := entryOf(append(slices.Clone(path), b), entries)
		if ea.line != eb.line {
			return ea.line - eb.line
		}
		return strings.Compare(a, b)
	})
}

// anchor is what GitHub makes of a heading with a path in it.
func anchor(path string) string {
	return strings.ToLower(strings.NewReplacer(".", "", "*", "name").Replace(path))
}

// cell makes a text fit into a table.
func cell(text string) string {
	parts := strings.Split(strings.ReplaceAll(text, "|", `\|`), "`")
	for i := 0; i < len(parts); i += 2 { // what is not code must not look like HTML
		parts[i] = strings.ReplaceAll(parts[i], "<", "&lt;")
	}
	return strings.Join(parts, "`")
}

func sentence(text string) string {
	return strings.TrimSuffix(strings.ToUpper(text[:1])+text[1:], ".")
}
