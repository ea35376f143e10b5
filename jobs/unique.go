package jobs

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/duration"
	"github.com/lockstep-scheduler/lockstep/internal/limits"
	"github.com/lockstep-scheduler/lockstep/internal/naming"
)

// Unique has at most one task with the same values in a pool, from the time at which it is enqueued until its uniqueness ends. Of any number
// of calls that enqueue such a task at the same time, exactly one adds it. Tasks without Unique are not compared with anything.
//
// The zero Unique is one task with the same kind and payload, while that is open.
//
// The uniqueness ends when both For and While say so: they are those of the task that exists, and not of the one that meets it. It ends
// with the row of the task as well, when that is deleted: a For that is longer than the retention of ended tasks ends with the retention.
// A copy of an ended task, made by a retry on demand, is not unique.
type Unique struct {
	// By names the values that are compared: "kind", "key", "payload", or a field of the payload by its path, as "payload.user.id". A
	// field that is missing counts as null. Values are the same if their compact JSON is, byte for byte. The order of the names does not
	// count; tasks whose By names other values are not compared. 1 to 16 names, each of at most 255 bytes; default kind and payload.
	By []string

	For time.Duration // since the task was created, by the clock of the store: 1 ms to 366 days; 0: as long as While says

	// While is how long the task is unique whatever its age; default WhileOpen if For is 0, else no longer than For.
	While UniqueWhile

	OnConflict OnConflict // what becomes of a task that meets another one with its values; default ConflictKeeps
}

// UniqueWhile is a part of the life of a task in which no other one with its values is added.
type UniqueWhile string

const (
	WhilePending UniqueWhile = "pending" // until its first claim; not again when it is handed back, snoozed or retried
	WhileOpen    UniqueWhile = "open"    // until it succeeded, failed for good, was lost or cancelled
)

// OnConflict is what becomes of a task to enqueue, if one with the same values exists.
type OnConflict string

const (
	// ConflictKeeps answers the task that exists, as it is.
	ConflictKeeps OnConflict = "keep"
	// ConflictReplaces gives the task that exists the payload, priority, due time, ExpiresAt and tags of the new one, if it is pending, as
	// Store.UpdateTask does, and answers it. One that runs or has ended is answered as it is. Kind and key of a task do not change: if those
	// of a pending one are others, which By then does not name, the call fails with ErrConflict.
	ConflictReplaces OnConflict = "replace"
	// ConflictRejects fails the call, with all its tasks, with ErrConflict.
	ConflictRejects OnConflict = "reject"
)

// WithDefaults returns u with its zero fields filled in.
func (u Unique) WithDefaults() Unique {
	if u.By == nil {
		u.By = []string{"kind", "payload"}
	}
	if u.For == 0 {
		u.While = cmp.Or(u.While, WhileOpen)
	}
	u.OnConflict = cmp.Or(u.OnConflict, ConflictKeeps)
	return u
}

// unique checks what a task says of its uniqueness.
func (p *problems) unique(u *Unique) {
	if u == nil {
		return
	}
	if u.By != nil && len(u.By) == 0 {
		p.add("unique.by", "names nothing; leave it out for kind and payload")
	}
	if len(u.By) > limits.UniqueBy {
		p.add("unique.by", "%d names, at most %d are allowed", len(u.By), limits.UniqueBy)
	}
	for i, name := range u.By[:min(len(u.By), limits.UniqueBy)] {
		path := fmt.Sprintf("unique.by[%d]", i)
		switch field, ofPayload := strings.CutPrefix(name, "payload."); {
		case len(name) > limits.UniqueName || !naming.Printable(name):
			p.add(path, "must be at most %d bytes of printable text", limits.UniqueName)
		case slices.Contains(u.By[:i], name):
			p.add(path, "%s stands twice", name)
		case name == "kind" || name == "key" || name == "payload":
		case !ofPayload || slices.Contains(strings.Split(field, "."), ""):
			p.add(path, "%.80q is unknown; use kind, key, payload, or a field as in payload.user", name)
		}
	}
	switch {
	case u.For < 0:
		p.add("unique.for", "%v is negative; leave it out for none", u.For)
	case u.For > 0 && u.For < limits.UniqueLeast:
		p.add("unique.for", "%v is too short; at least %v is allowed", u.For, limits.UniqueLeast)
	case u.For > duration.Max:
		p.add("unique.for", "%v is longer than a year", u.For)
	}
	p.oneOf("unique.while", string(u.While), string(WhilePending), string(WhileOpen))
	p.oneOf("unique.on_conflict", string(u.OnConflict), string(ConflictKeeps), string(ConflictReplaces), string(ConflictRejects))
}

// UniqueValues returns what n is compared by: an object with the values that Unique.By names, in the order of the names; nil if n has no
// Unique. payload is what Encode returned.
func (n NewTask) UniqueValues(payload json.RawMessage) json.RawMessage {
	if n.Unique == nil {
		return nil
	}
	text := []byte{'{'}
	for i, name := range slices.Sorted(slices.Values(n.Unique.WithDefaults().By)) {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(appendText(text, name), ':')
		switch field, ofPayload := strings.CutPrefix(name, "payload"); {
		case name == "kind":
			text = appendText(text, n.Kind)
		case name == "key":
			text = appendText(text, n.Key)
		case ofPayload:
			text = append(text, valueAt(payload, field)...)
		}
	}
	return append(text, '}')
}

func appendText(to []byte, text string) []byte {
	quoted, _ := json.Marshal(text) // strings always encode
	return append(to, quoted...)
}

// valueAt is what a path, ".a.b", leads to in compact JSON; null if there is nothing.
func valueAt(text json.RawMessage, path string) json.RawMessage {
	for path != "" && len(text) > 0 {
		var name string
		name, path, _ = strings.Cut(path[1:], ".")
		if path != "" {
			path = "." + path
		}
		var fields map[string]json.RawMessage
		_ = json.Unmarshal(text, &fields) // what is no object has no fields
		text = fields[name]
	}
	if len(text) == 0 {
		return json.RawMessage("null")
	}
	return text
}

// uniqueText is Unique in JSON.
type uniqueText struct {
	By         []string    `json:"by,omitzero"`
	For        string      `json:"for,omitempty"` // as in 10m, 1h30m or 2d
	While      UniqueWhile `json:"while,omitempty"`
	OnConflict OnConflict  `json:"on_conflict,omitempty"`
}

// MarshalJSON never fails.
func (u Unique) MarshalJSON() ([]byte, error) {
	text := uniqueText{By: u.By, While: u.While, OnConflict: u.OnConflict}
	if u.For != 0 {
		text.For = u.For.String()
	}
	return json.Marshal(text)
}

// UnmarshalJSON takes durations as definitions have them, and no unknown keys.
func (u *Unique) UnmarshalJSON(data []byte) error {
	var text uniqueText
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&text); err != nil {
		return err
	}
	is := Unique{By: text.By, While: text.While, OnConflict: text.OnConflict}
	if text.For != "" {
		var err error
		if is.For, err = duration.Parse(text.For); err != nil {
			return err
		}
	}
	*u = is
	return nil
}
