package docs

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/lockstep-scheduler/lockstep/docs"
)

// The schema accepts the configurations in the documents, and those of deploy.
func TestSchema(t *testing.T) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(docs.Schema))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("lockstep.schema.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("lockstep.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	check := func(at, text string) {
		t.Helper()
		var value any
		if err := yaml.Unmarshal([]byte(text), &value); err != nil {
			t.Errorf("%s: %v", at, err)
			return
		}
		data, err := json.Marshal(value)
		if err != nil {
			t.Errorf("%s: %v", at, err)
			return
		}
		if value, err = jsonschema.UnmarshalJSON(bytes.NewReader(data)); err != nil {
			t.Errorf("%s: %v", at, err)
			return
		}
		if err := schema.Validate(value); err != nil {
			t.Errorf("%s: %v", at, err)
		}
	}
	checked := 0
	for _, file := range pages(t) {
		for _, b := range blocks(t, file) {
			if b.language == "yaml" && b.notRun == "" {
				checked++
				check(b.at(), whole(b))
			}
		}
	}
	for _, file := range []string{"config.example.yaml", "cmd/scheduler/start.yaml", "deploy/compose/lockstep.yaml"} {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		check(file, string(text))
	}
	if checked < 10 {
		t.Errorf("only %d configurations were found", checked)
	}
}
