package program

import (
	"os"
	"strings"
	"testing"
)

// Programs and tests are built with the same flags, so that packages are compiled once.
func TestRaceIsThatOfTheMakefile(t *testing.T) {
	text, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	if want := "RACE = " + strings.Join(Race, " ") + "\n"; !strings.Contains(string(text), want) {
		t.Errorf("the Makefile has no line %q", want)
	}
}
