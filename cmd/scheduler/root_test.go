package main

import (
	"errors"
	"testing"
)

func TestTheProgramIsNamedOnce(t *testing.T) {
	for text, want := range map[string]string{"scheduler: still running": "still running", "store: scheduler: x": "store: scheduler: x"} {
		if got := failure(errors.New(text)); got != want {
			t.Errorf("%q is shown as %q", text, got)
		}
	}
}
