package config_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/lockstep-scheduler/lockstep/config"
)

// compiled is the schema as editors get it.
func compiled(t *testing.T) *jsonschema.Schema {
	t.Helper()
	data, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource(schemaURL, doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile(schemaURL)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// asJSON converts YAML to what editors validate: aliases and "<<" are expanded, and numbers and booleans are those of
// YAML 1.2. ok is false for invalid YAML.
func asJSON(text []byte) (value any, ok bool) {
	var doc yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(text))
	if dec.Decode(&doc) != nil || dec.Decode(new(yaml.Node)) == nil {
		return nil, false
	}
	left := 100_000 // nodes: aliases may make much of little
	value, ok = plain(doc.Content[0], &left)
	return value, ok
}

func plain(n *yaml.Node, left *int) (value any, ok bool) {
	if *left--; *left < 0 {
		return nil, false
	}
	switch n.Kind {
	case yaml.AliasNode:
		return plain(n.Alias, left)
	case yaml.SequenceNode:
		list := []any{}
		for _, item := range n.Content {
			value, ok := plain(item, left)
			if !ok {
				return nil, false
			}
			list = append(list, value)
		}
		return list, true
	case yaml.MappingNode:
		whole := map[string]any{}
		for i := 0; i < len(n.Content); i += 2 {
			key, value := n.Content[i], n.Content[i+1]
			if key.Kind != yaml.ScalarNode {
				return nil, false
			}
			v, ok := plain(value, left)
			if !ok {
				return nil, false
			}
			if key.Tag == "!!merge" {
				from, isMap := v.(map[string]any)
				if !isMap {
					return nil, false
				}
				for k, v := range from {
					if _, own := whole[k]; !own {
						whole[k] = v
					}
				}
				continue
			}
			whole[key.Value] = v
		}
		return whole, true
	}
	switch n.ShortTag() {
	case "!!null":
		return nil, true
	case "!!bool":
		return strings.EqualFold(n.Value, "true"), true
	case "!!int":
		if i, err := strconv.ParseInt(n.Value, 10, 64); err == nil && (n.Value == "0" || !strings.HasPrefix(strings.TrimLeft(n.Value, "+-"), "0")) {
			return float64(i), true
		}
	case "!!float":
		if f, err := strconv.ParseFloat(n.Value, 64); err == nil {
			return f, true
		}
	}
	return n.Value, true
}

// Valid configurations are valid by the schema. test/docs checks those in the documents.
func TestSchemaTakesWhatRuns(t *testing.T) {
	s := compiled(t)
	for _, file := range []string{"../config.example.yaml", "../cmd/scheduler/start.yaml"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		value, ok := asJSON(text)
		if !ok {
			t.Fatalf("%s is not sound YAML", file)
		}
		if err := s.Validate(value); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// The schema takes the rates that the program takes, and no others but for times that are out of range.
func TestSchemaOfRates(t *testing.T) {
	s := compiled(t)
	for _, value := range []string{
		"0", `"0"`, "50/s", "100/m", "5/h", "1/d", "20/10s", "5/1h30m", "10/1.5s", "7/1d", "2/0d5h", "010/s", "1000000/s", "${R}", "${N}/s",
		"1", "00", "0.5", "50", "true", "[]", `""`, "0/s", "000/s", "1000001/s", "50/", "50/5", "5/x", "5/min", "50 /s", "-1/s", "1.5/s", "/s", "50/s/s",
	} {
		text := "version: 1\npools:\n  p:\n    rate: " + value + "\n"
		_, err := config.LoadBytes("lockstep.yaml", []byte(text), config.Options{Environ: []string{"R=50/s", "N=8"}})
		doc, sound := asJSON([]byte(text))
		if refused := s.Validate(doc); !sound || (err == nil) != (refused == nil) {
			t.Errorf("rate: %s\nthe program: %v\nthe schema: %v", value, err, refused)
		}
	}
}

// byShape are complaints about what a schema can see: keys, kinds of values, ranges, choices. What
// variables bring, and how things go together, is beyond it.
var byShape = regexp.MustCompile(`unknown key|must be (a|one|true|more than 0)|is out of range; allowed|is unknown; (allowed|did)|is not a whole number|has no unit|` +
	`is not a duration|is not a rate|is not a time;|is neither true nor false|is not a name( for|;)|is not an address; write|stands beside (command|shell)|not yet: |has no value|` +
	`5 fields are needed|a lone \$|version: `)

// What is malformed by its shape is refused by the schema as well. What is not: YAML that an editor
// cannot even parse, and what is a matter of several keys, of files, or of variables.
func TestSchemaRefusesWhatIsMalformed(t *testing.T) {
	s := compiled(t)
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) < 100 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	var unsound, beyond []string
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		value, ok := asJSON(text)
		if !ok {
			unsound = append(unsound, name)
			continue
		}
		errorsOf, err := os.ReadFile(strings.TrimSuffix(file, ".yaml") + ".err")
		if err != nil {
			t.Fatal(err)
		}
		visible := false
		for line := range strings.Lines(string(errorsOf)) {
			own := strings.HasPrefix(line, name+".yaml:") // not of an included file
			visible = visible || own && byShape.MatchString(line) && !strings.Contains(line, "${")
		}
		switch err := s.Validate(value); {
		case err == nil && visible:
			t.Errorf("%s: the schema takes it; its shape is wrong:\n%s", name, errorsOf)
		case err == nil:
			beyond = append(beyond, name)
		}
	}
	refused := len(files) - len(unsound) - len(beyond)
	t.Logf("%d files: %d refused by the schema;\n%d no YAML that a schema could see: %v;\n%d beyond a schema: %v", len(files), refused, len(unsound), unsound, len(beyond), beyond)
	if refused < 60 {
		t.Errorf("the schema refuses %d files only", refused)
	}
}
