package nilcheck

import (
	"io"
	"strings"
	"testing"
)

func TestIsNil(t *testing.T) {
	var pointer *strings.Reader
	var function func()
	var within io.Reader = pointer
	for what, v := range map[string]any{"nothing": nil, "a nil pointer": pointer, "a nil pointer in an interface": within, "a nil function": function} {
		if !IsNil(v) {
			t.Errorf("%s is not nil", what)
		}
	}
	for what, v := range map[string]any{"a pointer": &within, "a function": t.Log, "zero": 0, "an empty struct": struct{}{}, "a nil slice": []int(nil), "a nil map": map[string]int(nil)} {
		if IsNil(v) {
			t.Errorf("%s is nil", what)
		}
	}
}
