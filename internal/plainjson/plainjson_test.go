package plainjson

import (
	"encoding/json"
	"math"
	"testing"
)

func TestMarshal(t *testing.T) {
	for want, v := range map[string]any{
		`"<&>"`:                       "<&>",
		`{"a":"<&>` + "\u2028" + `"}`: json.RawMessage(`{"a": "<&>` + "\u2028" + `"}`),
		`{"a":["\n"]}`:                map[string][]string{"a": {"\n"}},
		`null`:                        nil,
	} {
		if got, err := Marshal(v); string(got) != want || err != nil {
			t.Errorf("%#v: %s, %v, want %s", v, got, err, want)
		}
	}
	if got, err := Marshal(math.Inf(1)); err == nil {
		t.Errorf("an infinite number is %s", got)
	}
}
