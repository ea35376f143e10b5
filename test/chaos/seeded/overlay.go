package seeded

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// Sources are the files that the bug changes, with the bug, by their names below the module's root, which is a
// folder. An error names what does not apply to the present source.
func (b Bug) Sources(root string) (map[string]string, error) {
	diff, err := bugs.ReadFile("bugs/" + b.Name + ".diff")
	if err != nil {
		return nil, fmt.Errorf("seeded bug %s: %w", b.Name, err)
	}
	edits, err := parse(string(diff))
	if err != nil {
		return nil, fmt.Errorf("seeded bug %s: %w", b.Name, err)
	}
	of := map[string][]Edit{}
	for _, e := range edits {
		of[e.File] = append(of[e.File], e)
	}
	changed := map[string]string{}
	for _, file := range slices.Sorted(maps.Keys(of)) {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			return nil, fmt.Errorf("seeded bug %s: %w", b.Name, err)
		}
		if changed[file], err = apply(string(text), of[file]); err != nil {
			return nil, fmt.Errorf("seeded bug %s: %w", b.Name, err)
		}
	}
	return changed, nil
}

// Overlay writes the files of a build with the bug into dir, an empty folder, and returns the flags for go
// build. more are other overlay files to apply, too, as that of a clock that can be stepped; they must not
// replace the same files.
func (b Bug) Overlay(root, dir string, more ...string) ([]string, error) {
	changed, err := b.Sources(root)
	if err != nil {
		return nil, err
	}
	root, err = filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	replace := map[string]string{}
	for file, text := range changed {
		at := filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
			return nil, err
		}
		replace[filepath.Join(root, file)] = at
	}
	for _, name := range more {
		if err := merge(replace, name); err != nil {
			return nil, fmt.Errorf("seeded bug %s: %w", b.Name, err)
		}
	}
	text, err := json.Marshal(overlay{replace})
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "seeded.json")
	return []string{"-overlay", file}, os.WriteFile(file, text, 0o644)
}

// overlay is the file that go build -overlay reads.
type overlay struct{ Replace map[string]string }

// merge adds what another overlay file replaces.
func merge(replace map[string]string, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var other overlay
	if err := json.Unmarshal(text, &other); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	for name, by := range other.Replace {
		if _, twice := replace[name]; twice {
			return fmt.Errorf("%s replaces %s, and so does the bug", file, name)
		}
		replace[name] = by
	}
	return nil
}
