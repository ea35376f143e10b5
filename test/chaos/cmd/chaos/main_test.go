package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// save writes a run with nothing in it but leftover keys.
func save(t *testing.T, leftover int) string {
	t.Helper()
	dir := t.TempDir()
	began := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for file, v := range map[string]any{
		history.RunFile: history.Run{
			Cell: "mariadb+redis", Seed: 7, Commit: "abc", Machine: "2 cores", Versions: map[string]string{"go": "1.26"},
			Began: began, Quiesced: began, Ended: began.Add(time.Minute),
		},
		history.FinalFile:     history.Final{},
		history.LeftoversFile: []history.Leftover{{What: "redis keys", After: leftover}},
	} {
		if err := history.Write(dir, file, v); err != nil {
			t.Fatal(err)
		}
	}
	windows, err := history.OpenLog[history.Window](dir, history.WindowsFile)
	if err != nil {
		t.Fatal(err)
	}
	defer windows.Close()
	for _, nemesis := range []string{"kill", "cut"} {
		w := history.Window{Nemesis: nemesis, Kinds: []history.Kind{history.LockDown}, Began: began.Add(time.Second), Healed: began.Add(3 * time.Second), Applied: true}
		if err := windows.Add(w); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestCheck(t *testing.T) {
	good, bad := save(t, 0), save(t, 3)
	var out strings.Builder
	if err := run([]string{"check", good}, &out); err != nil || !strings.Contains(out.String(), "no violations") {
		t.Errorf("a good run: %v\n%s", err, &out)
	}
	out.Reset()
	err := run([]string{"check", bad, good}, &out)
	if err == nil || !strings.Contains(err.Error(), "1 violations") || strings.Count(out.String(), "seed 7") != 2 || !strings.Contains(out.String(), "I12 redis keys") {
		t.Errorf("a bad and a good run: %v\n%s", err, &out)
	}
}

// An unfinished run is not judged, and the others are.
func TestCheckOfHalfARun(t *testing.T) {
	good, half := save(t, 0), save(t, 0)
	if err := os.Remove(filepath.Join(half, history.FinalFile)); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	err := run([]string{"check", half, good}, &out)
	if err == nil || !strings.Contains(err.Error(), history.FinalFile) || !strings.Contains(out.String(), good) || strings.Contains(out.String(), half) {
		t.Errorf("%v\n%s", err, &out)
	}
}

// A run whose files have lost something has a violation.
func TestCheckOfADamagedRun(t *testing.T) {
	dir := save(t, 0)
	files, err := history.Count(dir)
	if err != nil {
		t.Fatal(err)
	}
	h, err := history.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	h.Run.Files = files
	if err := history.Write(dir, history.RunFile, h.Run); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := run([]string{"check", dir}, &out); err != nil {
		t.Errorf("it is whole: %v\n%s", err, &out)
	}
	text, err := os.ReadFile(filepath.Join(dir, history.WindowsFile))
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(text), "\n")
	err = errors.Join(
		os.WriteFile(filepath.Join(dir, history.WindowsFile), []byte(first+"\n"), 0o600),
		os.Remove(filepath.Join(dir, history.LeftoversFile)),
	)
	if err != nil {
		t.Fatal(err)
	}
	out.Reset()
	err = run([]string{"check", dir}, &out)
	if err == nil || !strings.Contains(out.String(), "I13 files: damaged: windows.jsonl has 1 line, and had 2\n") ||
		!strings.Contains(out.String(), "I13 files: damaged: leftovers.json is missing, and had ") {
		t.Errorf("%v\n%s", err, &out)
	}
}

// A folder that is not of a run is described in the error.
func TestCheckOfNoRun(t *testing.T) {
	above, cut := t.TempDir(), save(t, 0)
	if err := os.Rename(save(t, 0), filepath.Join(above, "mariadb+redis")); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(cut, history.RunFile)); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{
		above:                       "DIR is the folder of one run, such as " + filepath.Join(above, "mariadb+redis"),
		cut:                         "was cut off: it has windows.jsonl, and no run.json",
		t.TempDir():                 "has no run.json: DIR is the folder of one run",
		filepath.Join(above, "not"): "no such file",
	} {
		err := run([]string{"check", dir}, io.Discard)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("not %q: %v", want, err)
		} else if n := strings.Count(err.Error(), dir+" ") + strings.Count(err.Error(), dir+":"); n != 1 {
			t.Errorf("names %s %d times: %v", dir, n, err)
		}
	}
}

func TestReport(t *testing.T) {
	var out strings.Builder
	if err := run([]string{"report", save(t, 0), save(t, 3)}, &out); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"Commit `abc`, 2 cores; go 1.26.",
		"| mariadb+redis | 7 | 0 | 0 | 2 of 2 | 0 | 0 ms / 0 ms | 0 ms / 0 ms | 0 ms |",
		"| mariadb+redis | 7 | 0 | 0 | 2 of 2 | **1** (I12) | 0 ms / 0 ms | 0 ms / 0 ms | 0 ms |",
		"| cut | 2 of 2 | 0 | 0 | – | 0 ms |",
		"| kill | 2 of 2 | 0 | 0 | – | 0 ms |",
	} {
		if strings.Count(out.String(), line+"\n") != 1 {
			t.Errorf("%q is not once in\n%s", line, &out)
		}
	}
}

func TestReportIntoAPage(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(page, []byte("before\n"+begin+"old\n"+end+"after\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := save(t, 0)
	for range 2 { // again, and it is the same
		if err := run([]string{"report", "-into", page, dir}, io.Discard); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if s := string(text); !strings.HasPrefix(s, "before\n"+begin+"Commit") || !strings.HasSuffix(s, end+"after\n") || strings.Contains(s, "old") || strings.Count(s, "Commit") != 1 {
		t.Errorf("%s", s)
	}
	if err := os.WriteFile(page, []byte("nothing\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run([]string{"report", "-into", page, dir}, io.Discard); err == nil || !strings.Contains(err.Error(), "chaos report: begin") {
		t.Errorf("a page without a place for it: %v", err)
	}
}

func TestUsage(t *testing.T) {
	var out strings.Builder
	for _, args := range [][]string{nil, {"check"}, {"judge", "x"}, {"report", "-into", "x"}} {
		if err := run(args, &out); !errors.Is(err, errUsage) {
			t.Errorf("%v: %v", args, err)
		}
	}
	if err := run([]string{"--help"}, &out); err != nil || out.String() != usage {
		t.Errorf("%v\n%s", err, &out)
	}
}
