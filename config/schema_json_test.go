package config_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/internal/limits"
)

// schemaURL is where editors find the schema, and its $id.
const schemaURL = "https://raw.githubusercontent.com/lockstep-scheduler/lockstep/main/docs/lockstep.schema.json"

type rules = map[string]any

// schemaText writes the shape of the whole configuration as a JSON Schema, draft 2020-12.
func schemaText(t *testing.T, top *shape, entries map[string]entry) []byte {
	t.Helper()
	whole := schemaOf(nil, top, entries)
	whole["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	whole["$id"] = schemaURL
	whole["title"] = "Configuration of Lockstep"
	whole["description"] = "Every key is explained in docs/configuration.md. What depends on several keys, on files or on the machine is checked by scheduler validate only."
	whole["required"] = []string{"version"}
	whole["type"] = "object"
	whole["$defs"] = definitions
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(whole); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// filledIn is how variables and dollar signs are written.
const filledIn = `\$\$|\$\{[A-Za-z_][A-Za-z0-9_]*(:-.*)?\}`

// variable: a text with a variable in it can become anything.
var variable = rules{"type": "string", "pattern": `^([^$]|` + filledIn + `)*$`, "allOf": []any{rules{"pattern": `\$`}}}

// namePattern is that of package jobs.
const namePattern = "^[a-zA-Z0-9][a-zA-Z0-9._-]{0,63}$"

// orVariable is the shape of a value that may have variables.
func orVariable(r rules) rules { return rules{"anyOf": []any{r, rules{"$ref": "#/$defs/variable"}}} }

// timePattern is that of RFC 3339.
const timePattern = `[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})`

// Where a text is wanted, YAML's numbers and truth values are texts too.
var definitions = rules{
	"variable": variable,
	"text":     rules{"type": []string{"string", "number", "boolean"}, "pattern": `^([^$]|` + filledIn + `)*$`},
	"raw":      rules{"type": []string{"string", "number", "boolean"}},
	"truth":    orVariable(rules{"type": "boolean"}),
	"zone":     orVariable(rules{"type": "string", "pattern": "^[A-Z][A-Za-z0-9_+/-]*$|^$", "not": rules{"const": "Local"}}),
	"name":     orVariable(rules{"type": []string{"string", "number", "boolean"}, "pattern": strings.TrimSuffix(namePattern, "$") + "$|^$"}),
	"address":  orVariable(rules{"type": "string", "pattern": `^.+:[0-9]{1,5}$`}),
	"duration": orVariable(rules{
		"type":    "string",
		"pattern": `^([0-9]{1,3}d)?([0-9]{1,14}(\.[0-9]+)?(h|m|s|ms|us|µs|ns))*$`,
		"allOf":   []any{rules{"pattern": "[1-9]"}}, // zero is none
	}),
	"delay": orVariable(rules{
		"type":    "string",
		"pattern": `^([0-9]{1,3}d)?([0-9]{1,14}(\.[0-9]+)?(h|m|s|ms|us|µs|ns))*$`,
		"allOf":   []any{rules{"pattern": "[0-9]"}},
	}),
	"time": orVariable(rules{"type": "string", "pattern": "^" + timePattern + "$"}),
	"size": orVariable(rules{"type": "string", "pattern": "^0*[1-9][0-9]{0,6}(KiB|MiB|GiB)$"}),
	"rate": orVariable(rules{"anyOf": []any{
		rules{"const": 0},
		rules{"type": "string", "pattern": `^(0|0*([1-9][0-9]{0,5}|1000000)/([smhd]|[0-9]{1,6}d|([0-9]{1,6}d)?([0-9]+(\.[0-9]+)?(h|m|s|ms|us|µs|ns))+))$`},
	}}),
	"expression": orVariable(rules{
		"type":      "string",
		"maxLength": 256,
		"pattern":   `^\s*(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|@every\s+[0-9][0-9a-zµ.]*|@at\s+` + timePattern + `|[^\s@=]+(\s+[^\s@=]+){4,5})\s*$`,
	}),
}

func ref(name string) rules { return rules{"$ref": "#/$defs/" + name} }

func schemaOf(path []string, s *shape, entries map[string]entry) rules {
	r := valueRules(path, s, entries)
	if e, found := entryOf(path, entries); found && len(path) > 0 && path[len(path)-1] != "*" {
		if e.why != "" {
			r["description"] = sentence(e.why) + "."
		}
	}
	return r
}

func valueRules(path []string, s *shape, entries map[string]entry) rules {
	switch s.kind {
	case theOne:
		return rules{"enum": []any{1, "1"}}
	case number:
		return orVariable(rules{"type": "integer", "minimum": s.low, "maximum": s.high})
	case truth:
		return ref("truth")
	case duration:
		r := ref("duration")
		if s.zero {
			r = ref("delay")
		}
		if s.least != "" {
			r["$comment"] = "at least " + s.least
		}
		return r
	case rate:
		return ref("rate")
	case size:
		return ref("size")
	case decimal:
		return orVariable(rules{"type": "number", "minimum": limits.LeastCPU, "maximum": limits.CPU})
	case choice:
		return orVariable(rules{"enum": s.choices})
	case name:
		return ref("name")
	case zone:
		return ref("zone")
	case moment:
		return ref("time")
	case address:
		return ref("address")
	case expressed:
		return ref("expression")
	case text:
		if s.raw {
			return ref("raw")
		}
		return ref("text")
	case reserved:
		e, _ := entryOf(path, entries)
		return rules{"enum": onlyDefault(e), "$comment": "Not yet: " + s.later}
	case list:
		of := valueRules(append(slices.Clone(path), "[]"), s.item, entries)
		many := rules{"type": []string{"array", "null"}, "items": of}
		if s.filled {
			many["minItems"] = 1
		}
		if s.orOne {
			return rules{"anyOf": []any{many, of}}
		}
		return many
	case nothing:
		return rules{"type": []string{"object", "null"}, "patternProperties": rules{"^x-": true}, "additionalProperties": false}
	case mapping:
		r := rules{
			"type":                 []string{"object", "null"},
			"additionalProperties": valueRules(append(slices.Clone(path), "*"), s.value, entries),
		}
		if s.named {
			r["propertyNames"] = rules{"pattern": namePattern}
		}
		return r
	case object:
		if s.orText {
			return rules{"anyOf": []any{ref("text"), objectRules(path, s, entries)}}
		}
		return objectRules(path, s, entries)
	}
	return rules{}
}

func objectRules(path []string, s *shape, entries map[string]entry) rules {
	properties := rules{}
	for key, below := range s.keys {
		properties[key] = schemaOf(append(slices.Clone(path), key), below, entries)
	}
	r := rules{
		"type":                 []string{"object", "null"},
		"properties":           properties,
		"patternProperties":    rules{"^x-": true},
		"additionalProperties": false,
	}
	if s.keys["command"] == nil || s.keys["http"] == nil {
		return r
	}
	// There is one handler, and process keys need a command or shell.
	ways := []string{"command", "shell", "http", "func"}
	if s.keys["webhook"] != nil {
		ways = append(ways, "webhook")
	}
	if s.keys["worker"] != nil {
		ways = append(ways, "worker")
	}
	var one []any
	for i, way := range ways {
		for _, other := range ways[i+1:] {
			one = append(one, rules{"not": rules{"type": "object", "required": []string{way, other}}})
		}
	}
	r["allOf"] = one
	process := rules{"anyOf": []any{rules{"required": []string{"command"}}, rules{"required": []string{"shell"}}}}
	dependent := rules{}
	for _, key := range []string{"env", "pass_env", "env_file", "working_dir", "stop_grace_period", "limits"} {
		if s.keys[key] != nil {
			dependent[key] = process
		}
	}
	r["dependentSchemas"] = dependent
	if s.needs {
		var any []any
		for _, way := range ways {
			any = append(any, rules{"required": []string{way}})
		}
		r["type"], r["anyOf"] = "object", any
	}
	return r
}

// onlyDefault is what a key of a later release takes: nothing, or what it will do without being set.
func onlyDefault(e entry) []any {
	var value any
	if e.node != nil && !e.commented {
		_ = e.node.Decode(&value) // the example is sound YAML
	}
	if value == nil {
		return []any{nil, "", []any{}, rules{}}
	}
	return []any{value, nil}
}
