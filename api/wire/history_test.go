package wire

import (
	"encoding/json"
	"fmt"
	"testing"
)

func TestChanges(t *testing.T) {
	of := func(hash, text string) Definition { return Definition{Hash: hash, Definition: json.RawMessage(text)} }
	a := of("1", `{"a":1,"same":[1, 2],"catch_up":{"window":"1h","limit":1},"gone":"x","payload":{"n":1}}`)
	b := of("2", `{"a":2,"same":[1,2],"catch_up":{"limit":1,"window":"2h"},"new":true,"payload":{"n":2}}`)
	got := ""
	for _, c := range Changes(a, b) {
		got += fmt.Sprintf("%s: %s → %s; ", c.Field, c.From, c.To)
	}
	if want := `a: 1 → 2; catch_up.window: "1h" → "2h"; gone: "x" → ; new:  → true; payload: {"n":1} → {"n":2}; `; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := Changes(a, a); got != nil {
		t.Errorf("of one definition: %v", got)
	}
	if got := Changes(of("1", `{"a":1}`), of("2", `{ "a": 1 }`)); len(got) != 1 || got[0].Field != Hidden {
		t.Errorf("of two that are shown alike: %v", got)
	}
}
