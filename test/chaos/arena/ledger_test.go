//go:build linux

package arena

import (
	"net/http"
	"testing"
)

// What the ledger could not write is an error of the arena: a run with holes in it is no good.
func TestALedgerThatCannotWrite(t *testing.T) {
	a := &Arena{}
	l, err := openLedger(t.TempDir(), a.note)
	if err != nil {
		t.Fatal(err)
	}
	ask := func() {
		t.Helper()
		answer, err := http.Post(l.url+"/open", "", nil)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
	}
	ask()
	if err := a.Err(); err != nil {
		t.Error(err)
	}
	if err := l.effects.Close(); err != nil {
		t.Fatal(err)
	}
	ask()
	if a.Err() == nil {
		t.Error("it was not noticed")
	}
	if l.close() == nil {
		t.Error("it was closed twice")
	}
}
