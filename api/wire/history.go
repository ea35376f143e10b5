package wire

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"time"
)

// Definition is one that a job has had since it was first configured, or since the store keeps a history.
type Definition struct {
	Job        string          `json:"job"`
	Hash       string          `json:"hash"`           // triggers name it so as their definition
	Config     int64           `json:"config"`         // number of the configuration that brought it first
	FirstAt    time.Time       `json:"first_at"`       // when it began to govern first
	Since      time.Time       `json:"since"`          // when it began to govern last; later than FirstAt of one that came back
	Until      time.Time       `json:"until,omitzero"` // when it ceased to, that time; absent: it governs
	Definition json.RawMessage `json:"definition"`     // by the names of a file, with defaults; values of variables and headers are left out
}

// Change is a setting in which two definitions differ. From and To are JSON; absent: the one has it not.
type Change struct {
	Field string          `json:"field"` // as "catch_up.window"; "(hidden)": only what is not shown differs
	From  json.RawMessage `json:"from,omitempty"`
	To    json.RawMessage `json:"to,omitempty"`
}

// Hidden is the field of a Change of definitions that are shown alike.
const Hidden = "(hidden)"

// Changes are what differs from one definition to another, sorted by field; nil: they are the same.
func Changes(from, to Definition) (all []Change) {
	if from.Hash == to.Hash {
		return nil
	}
	a, b := flat(from.Definition), flat(to.Definition)
	fields := maps.Clone(a)
	maps.Copy(fields, b)
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		if !bytes.Equal(a[field], b[field]) {
			all = append(all, Change{field, a[field], b[field]})
		}
	}
	if all == nil {
		all = []Change{{Field: Hidden}}
	}
	return all
}

// flat is the settings of a JSON object by their paths, as compact JSON; those of a payload are one.
func flat(object json.RawMessage) map[string]json.RawMessage {
	all := map[string]json.RawMessage{}
	var walk func(prefix string, object json.RawMessage)
	walk = func(prefix string, object json.RawMessage) {
		var fields map[string]json.RawMessage
		_ = json.Unmarshal(object, &fields) // the store's own
		for name, value := range fields {
			path := prefix + name
			if value = bytes.TrimSpace(value); bytes.HasPrefix(value, []byte("{")) && path != "payload" {
				walk(path+".", value)
				continue
			}
			var b bytes.Buffer
			if json.Compact(&b, value) == nil {
				all[path] = b.Bytes()
			}
		}
	}
	walk("", object)
	return all
}
