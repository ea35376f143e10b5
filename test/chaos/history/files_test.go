package history

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Lines of many writers are read back whole, and an incomplete line is an error.
func TestRead(t *testing.T) {
	dir := t.TempDir()
	want := History{
		Run:     Run{Cell: "c", Seed: 7, Began: time.Unix(5, 0).UTC(), Directory: dir},
		Windows: []Window{{Nemesis: "n", Kinds: []Kind{LockDown}, Applied: true}},
		Final:   Final{Done: []Row{{ID: "x", Token: 3}}},
	}
	for file, v := range map[string]any{RunFile: want.Run, FinalFile: want.Final} {
		if err := Write(dir, file, v); err != nil {
			t.Fatal(err)
		}
	}
	windows, err := OpenLog[Window](dir, WindowsFile)
	if err != nil {
		t.Fatal(err)
	}
	if err := windows.Add(want.Windows[0]); err != nil {
		t.Fatal(err)
	}
	effects, err := OpenLog[Effect](dir, EffectsFile)
	if err != nil {
		t.Fatal(err)
	}
	var writers sync.WaitGroup
	for range 20 {
		writers.Go(func() {
			for range 50 {
				if err := effects.Add(Effect{What: Beat, Key: strings.Repeat("k", 200)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()

	h, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(h.Effects) != 1000 {
		t.Errorf("%d of 1000 effects", len(h.Effects))
	}
	h.Effects = nil
	if diff := cmp.Diff(&want, h); diff != "" {
		t.Error(diff)
	}

	file := filepath.Join(dir, EffectsFile)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text[:len(text)-10], 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(dir); err == nil || !strings.Contains(err.Error(), EffectsFile+":1000") {
		t.Errorf("a line that was cut short: %v", err)
	}
}

// The incomplete line of a killed writer is skipped; the next line counts.
func TestReadAfterKilledWriter(t *testing.T) {
	dir := t.TempDir()
	for file, v := range map[string]any{RunFile: Run{}, FinalFile: Final{}} {
		if err := Write(dir, file, v); err != nil {
			t.Fatal(err)
		}
	}
	text := `{"What":"beat","Key":"a","Repli{"What":"start","Key":"b"}` + "\n" + `{"What{"What":"end","Key":"c"}` + "\n"
	if err := os.WriteFile(filepath.Join(dir, EffectsFile), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	h, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Effect{{What: Start, Key: "b"}, {What: End, Key: "c"}}, h.Effects); diff != "" {
		t.Error(diff)
	}
}

// A folder takes one run, also if only parts of it are left.
func TestUnused(t *testing.T) {
	dir := t.TempDir()
	for _, free := range []string{dir, filepath.Join(dir, "not there")} {
		if err := Unused(free); err != nil {
			t.Error(err)
		}
	}
	for _, file := range []string{RunFile, ProbesFile} {
		used := t.TempDir()
		if err := os.WriteFile(filepath.Join(used, file), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := Unused(used); err == nil || !strings.Contains(err.Error(), used+" has a run in it already: "+file) {
			t.Errorf("%s: %v", file, err)
		}
	}
}
