package docs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/lockstep-scheduler/lockstep/config"
)

// Every YAML block is a configuration, or the part of one that "under" names, that loads. A block of another program's
// YAML has "not run", and is valid YAML.
func TestYAML(t *testing.T) {
	found := 0
	for _, file := range pages(t) {
		for _, b := range blocks(t, file) {
			if b.language != "yaml" {
				continue
			}
			if b.notRun != "" {
				if err := wellFormed(b.body); err != nil {
					t.Errorf("%s: %v", b.at(), err)
				}
				continue
			}
			found++
			for _, problem := range load(whole(b)) {
				t.Errorf("%s: %v in\n%s", b.at(), problem, whole(b))
			}
		}
	}
	if found == 0 {
		t.Error("no configuration was found")
	}
}

// whole completes a block to a configuration.
func whole(b block) string {
	text, indent := "", ""
	if b.under != "" {
		for key := range strings.SplitSeq(b.under, ".") {
			text += indent + key + ":\n"
			indent += "  "
		}
	}
	for line := range strings.Lines(b.body) {
		text += indent + line
	}
	if !strings.HasPrefix(text, "version:") && !strings.Contains(text, "\nversion:") {
		text = "version: 1\n" + text
	}
	return text
}

// load returns the errors of a configuration, except those about the reader's machine: files, variables, and the
// functions of the embedding program.
func load(text string) (problems []error) {
	_, err := config.LoadBytes("lockstep.yaml", []byte(text), config.Options{})
	var all config.Errors
	if !errors.As(err, &all) {
		return nil
	}
	for _, one := range all {
		there := false
		for _, words := range []string{"no such file or directory", "the environment variable", "this program has no functions"} {
			there = there || strings.Contains(one.Problem, words)
		}
		if !there {
			problems = append(problems, one)
		}
	}
	return problems
}

func wellFormed(text string) error {
	dec := yaml.NewDecoder(strings.NewReader(text))
	for {
		var n yaml.Node
		switch err := dec.Decode(&n); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// Every JSON block is one value, or several behind each other.
func TestJSON(t *testing.T) {
	for _, file := range pages(t) {
		for _, b := range blocks(t, file) {
			if b.language != "json" || b.notRun != "" {
				continue
			}
			dec := json.NewDecoder(strings.NewReader(b.body))
			for {
				var value any
				err := dec.Decode(&value)
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Errorf("%s: %v", b.at(), err)
					break
				}
			}
		}
	}
}

// The configuration that a page shows and the example load with the same words: a wrong block is
// found.
func TestWrongYAMLIsFound(t *testing.T) {
	for _, text := range []string{"jobz: {}", "jobs: {a: {schedule: '61 * * * *', command: [x]}}", "a: [", "lock: {driver: redis, ttl: 10}"} {
		if len(load(whole(block{body: text}))) == 0 {
			t.Errorf("%s: nothing was found", text)
		}
	}
	data, err := os.ReadFile(filepath.Join(root, "config.example.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if problems := load(string(data)); len(problems) > 0 {
		t.Error(problems)
	}
	if problems := load(whole(block{body: "timeout: 1m\n", under: "jobs.a"})); len(problems) != 1 || !strings.Contains(fmt.Sprint(problems), "nothing to do") {
		t.Error(problems)
	}
}
