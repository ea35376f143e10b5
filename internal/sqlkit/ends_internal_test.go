package sqlkit

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// Who waits for the write lock looks for it at once when a transaction of this process has ended, also when it ended just before, and else after a nap.
func TestAWriterIsToldOfTheEndOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := NewEnds()
		waits := func(most time.Duration) {
			t.Helper()
			began := time.Now()
			if err := e.wait(t.Context()); err != nil || time.Since(began) > most {
				t.Errorf("it waited for %v: %v", time.Since(began), err)
			}
		}
		e.tell()
		e.tell() // nobody waits for two
		waits(0)
		waits(turnNap)
		Ends(nil).tell()
		e = nil
		waits(turnNap)

		e = NewEnds()
		over, cancel := context.WithCancel(t.Context())
		cancel()
		if err := e.wait(over); !errors.Is(err, context.Canceled) {
			t.Errorf("its time was over: %v", err)
		}
	})
}

// The end of a transaction is told, whatever its answer.
func TestCommitTellsThatATransactionHasEnded(t *testing.T) {
	db := memory(t)
	e := NewEnds()
	db.Dialect = SQLite{Ends: e}
	for range 2 {
		if err := db.Tx(t.Context(), func(*Tx) error { return nil }); err != nil {
			t.Fatal(err)
		}
		select {
		case <-e:
		default:
			t.Error("it is not told")
		}
	}
}
