package scenarios

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
)

// page has each table between two lines.
const (
	page      = "../../docs/locks.md"
	capsBegin = "<!-- what the backends have, by test/scenarios -->\n"
	runsBegin = "<!-- what the runs have shown, by test/scenarios -->\n"
	end       = "<!-- its end -->\n"
)

// The page says of each backend what its Caps say.
func TestPageHasCaps(t *testing.T) {
	yes := func(is bool) string {
		if is {
			return "yes"
		}
		return "–"
	}
	var b strings.Builder
	b.WriteString("| backend | order | shared | semaphore | told before the next grant | remembers | excludes |\n|---|---|---|---|---|---|---|\n")
	for _, backend := range backends {
		c := backend.caps(t)
		reach := "all machines"
		switch {
		case c.SingleProc:
			reach = "one process"
		case c.SingleHost:
			reach = "one machine"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s |\n",
			c.Name, yes(c.FIFO), yes(c.Shared), yes(c.Limit), yes(c.EarlyLoss), yes(!c.Volatile), reach)
	}
	if err := compare(capsBegin, b.String(), *update); err != nil {
		t.Error(err)
	}
}

// columns are the properties, and by kind the scenarios that show them.
var columns = []struct {
	title   string
	showing map[string][]string
}{
	{"exclusion", map[string][]string{
		exclusive.name: {"TestCounter", "TestBankAccount", "TestTaskPool", "TestOrderNumbers"},
		shared.name:    {"TestCounter", "TestReaders"},
		semaphore.name: {"TestCounter"},
		reentrant.name: {"TestCounter", "TestBankAccount", "TestTaskPool", "TestOrderNumbers"},
		several.name:   {"TestCounter", "TestBankAccount", "TestTaskPool", "TestOrderNumbers"},
	}},
	{"no deadlock, nobody starves", map[string][]string{
		exclusive.name: {"TestFair"},
		shared.name:    {"TestReaders", "TestFair"},
		semaphore.name: {"TestFair"},
		reentrant.name: {"TestBankAccount"},
		several.name:   {"TestBankAccount"},
	}},
	{"holder killed or stopped", map[string][]string{
		exclusive.name: {"TestCrashedHolder", "TestPausedHolder"},
		shared.name:    {"TestCrashedHolder", "TestPausedHolder"},
		semaphore.name: {"TestCrashedHolder", "TestPausedHolder"},
		reentrant.name: {"TestCrashedHolder", "TestPausedHolder"},
		several.name:   {"TestCrashedHolder", "TestPausedHolder"},
	}},
	{"only the holder releases", map[string][]string{
		exclusive.name: {"TestForeignRelease"},
		shared.name:    {"TestForeignRelease"},
		semaphore.name: {"TestForeignRelease"},
		reentrant.name: {"TestForeignRelease"},
		several.name:   {"TestForeignRelease"},
	}},
}

// results are what the runs of this binary have shown.
type results struct {
	mu    sync.Mutex
	runs  map[run]string // the note of each
	sites map[string]site
}

type run struct{ backend, kind, scenario string }

var shown = results{runs: map[run]string{}, sites: map[string]site{}}

// held notes that a scenario held, once its test has passed. The note says what was seen of how it holds.
func (r *results) held(t *testing.T, s site, scenario, note string) {
	t.Cleanup(func() {
		if t.Failed() {
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.runs[run{s.name, s.kind.name, scenario}] = note
		r.sites[s.name] = s
	})
}

// cell is what the runs showed of one property. complete is false if not all of its scenarios ran.
func (r *results) cell(s site, k kind, showing []string) (text string, complete bool) {
	var notes []string
	seen := 0
	for _, scenario := range showing {
		note, ok := r.runs[run{s.name, k.name, scenario}]
		if !ok {
			if s.caps.SingleProc && (scenario == "TestCrashedHolder" || scenario == "TestPausedHolder") {
				continue
			}
			return "", false
		}
		seen++
		if note != "" && !slices.Contains(notes, note) {
			notes = append(notes, note)
		}
	}
	switch {
	case seen == 0:
		return "– (one process)", true
	case len(notes) == 0:
		return "yes", true
	}
	return strings.Join(notes, "; "), true
}

// table has a row for each backend and kind. complete is false if this was not a whole run.
func (r *results) table() (text string, complete bool) {
	var b strings.Builder
	b.WriteString("| backend | kind |")
	for _, c := range columns {
		fmt.Fprintf(&b, " %s |", c.title)
	}
	b.WriteString("\n|---|---|" + strings.Repeat("---|", len(columns)) + "\n")
	for _, backend := range backends {
		s, ok := r.sites[backend.name]
		if !ok {
			return "", false
		}
		for _, k := range kinds {
			if !k.has(s.caps) {
				continue
			}
			fmt.Fprintf(&b, "| %s | %s |", backend.name, k.name)
			for _, c := range columns {
				cell, complete := r.cell(s, k, c.showing[k.name])
				if !complete {
					return "", false
				}
				fmt.Fprintf(&b, " %s |", cell)
			}
			b.WriteString("\n")
		}
	}
	return b.String(), true
}

// compare returns an error if the page says something else than a whole run has shown, or writes the page.
func (r *results) compare(write bool) error {
	table, complete := r.table()
	if !complete {
		return nil
	}
	return compare(runsBegin, table, write)
}

// compare returns an error if the page has something else than table between the line begin and the next end, or writes it there.
func compare(begin, table string, write bool) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	before, rest, found := bytes.Cut(text, []byte(begin))
	old, after, closed := bytes.Cut(rest, []byte(end))
	if !found || !closed {
		return fmt.Errorf("%s has no place for a table: it stands between %q and %q", page, begin, end)
	}
	if string(old) == table {
		return nil
	}
	if !write {
		return fmt.Errorf("%s says something else; run the whole package with -update, and read the difference. This is so:\n%s", page, table)
	}
	return os.WriteFile(page, slices.Concat(before, []byte(begin), []byte(table), []byte(end), after), 0o644)
}
