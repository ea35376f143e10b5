package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// The schema is printed unchanged, and the file that init writes names it in its first line.
func TestSchema(t *testing.T) {
	r := call(t, nil, "schema")
	var schema struct {
		ID string `json:"$id"`
	}
	if err := json.Unmarshal([]byte(r.stdout), &schema); err != nil || r.code != exitFine {
		t.Fatalf("exit code %d, %v, %s", r.code, err, r.stderr)
	}
	if first, _, _ := strings.Cut(string(startFile), "\n"); first != "# yaml-language-server: $schema="+schema.ID {
		t.Errorf("init's file starts with %q, the schema is %s", first, schema.ID)
	}
}
