package store

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// A transaction under which rows moved starts again. One whose COMMIT had no answer is repeated only if it did not happen.
// Both have a bounded number of tries, and the error says what is left open.
func TestSettle(t *testing.T) {
	s := migrated(t, "sqlite", filepath.Join(t.TempDir(), "a.db"), Options{})
	boom, mute := errors.New("boom"), errors.New("no connection")
	moved := func(n int) []error { return slices.Repeat([]error{sqlkit.ErrMoved}, n) }
	lost := func(n int) []error { return slices.Repeat([]error{sqlkit.ErrUnknownCommit}, n) }
	type answer struct {
		is  bool
		err error
	}
	no, yes := answer{}, answer{is: true}
	for name, c := range map[string]struct {
		tries   []error // what comes of each; of those after them nothing bad
		answers []answer
		blind   bool // the transaction finds out itself
		want    []error
		again   string // the error of each try
	}{
		"it ends well":                         {again: "false"},
		"it fails":                             {tries: []error{boom}, want: []error{boom}, again: "false"},
		"rows moved":                           {tries: moved(10), again: strings.Repeat("false ", 10) + "false"},
		"rows move without end":                {tries: moved(99), want: []error{sqlkit.ErrMoved, jobs.ErrUnavailable}, again: strings.Repeat("false ", 10) + "false"},
		"it happened":                          {tries: lost(1), answers: []answer{yes}, again: "false"},
		"it did not happen":                    {tries: lost(1), answers: []answer{no}, again: "false true"},
		"it did not happen, and then it did":   {tries: lost(2), answers: []answer{no, yes}, again: "false true"},
		"no answer without end":                {tries: lost(99), answers: []answer{no, no, no}, want: []error{sqlkit.ErrUnknownCommit, jobs.ErrUnavailable}, again: "false true true true"},
		"it cannot be asked":                   {tries: lost(1), answers: []answer{{err: mute}}, want: []error{sqlkit.ErrUnknownCommit, mute}, again: "false"},
		"it finds out itself":                  {tries: lost(3), blind: true, again: "false true true true"},
		"it finds out itself, and fails":       {tries: append(lost(1), boom), blind: true, want: []error{boom}, again: "false true"},
		"it finds out itself, without end":     {tries: lost(99), blind: true, want: []error{sqlkit.ErrUnknownCommit, jobs.ErrUnavailable}, again: "false true true true"},
		"rows moved after it did not happen":   {tries: append(lost(1), sqlkit.ErrMoved), answers: []answer{no}, again: "false true true"},
		"the answers are lost between moves":   {tries: []error{sqlkit.ErrMoved, sqlkit.ErrUnknownCommit, sqlkit.ErrMoved}, answers: []answer{no}, again: "false false true true"},
		"moves and lost answers count by kind": {tries: slices.Concat(moved(10), lost(3)), blind: true, again: strings.Repeat("false ", 11) + "true true true"},
	} {
		t.Run(name, func(t *testing.T) {
			var again []string
			asked := 0
			try := func(tx *tx) error {
				again = append(again, fmt.Sprint(tx.Again))
				if n := len(again); n <= len(c.tries) {
					return c.tries[n-1]
				}
				return nil
			}
			ask := func(*tx) (bool, error) {
				if asked++; asked > len(c.answers) {
					return false, fmt.Errorf("asked %d times", asked)
				}
				return c.answers[asked-1].is, c.answers[asked-1].err
			}
			if c.blind {
				ask = nil
			}
			err := s.settle(t.Context(), "test", try, ask)
			if len(c.want) == 0 && err != nil {
				t.Error(err)
			}
			for _, want := range c.want {
				if !errors.Is(err, want) {
					t.Errorf("%v, want %v", err, want)
				}
			}
			if errors.Is(err, mute) && !strings.HasPrefix(err.Error(), "store: test: "+jobs.ErrUnavailable.Error()+": "+sqlkit.ErrUnknownCommit.Error()+"\n") {
				t.Errorf("%q, and what came first is the lost answer", err)
			}
			if got := strings.Join(again, " "); got != c.again || asked != len(c.answers) {
				t.Errorf("tried as %s, want %s; asked %d times of %d", got, c.again, asked, len(c.answers))
			}
		})
	}
}

// A transaction with a COMMIT that had no answer is not repeated, whatever other errors it wraps.
func TestAnUnknownCommitIsNotRepeated(t *testing.T) {
	s := migrated(t, "sqlite", filepath.Join(t.TempDir(), "a.db"), Options{})
	tries := 0
	err := s.tx(t.Context(), "test", func(*tx) error {
		tries++
		return fmt.Errorf("%w: %w", sqlkit.ErrUnknownCommit, driver.ErrBadConn)
	})
	if !errors.Is(err, sqlkit.ErrUnknownCommit) || tries != 1 {
		t.Errorf("%v after %d tries", err, tries)
	}
}
