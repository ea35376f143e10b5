package nesting

import (
	"strings"
	"testing"
)

func TestDepth(t *testing.T) {
	for text, want := range map[string]int{
		``:                          0,
		`7`:                         0,
		`[]`:                        1,
		`[[],{},[[]]]`:              3,
		`{"a":[{"b":1}]}`:           3,
		`["[[[", "\"[[", "\\", []]`: 2,
		`]]]][`:                     0,
		`["[`:                       1,
		`"\`:                        0,
		strings.Repeat(`{"a":`, 101) + `1` + strings.Repeat(`}`, 101): 101,
	} {
		if got := Depth([]byte(text)); got != want {
			t.Errorf("%.40s: depth %d, want %d", text, got, want)
		}
	}
}
