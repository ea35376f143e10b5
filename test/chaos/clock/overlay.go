// Package clock builds programs whose wall clock a test can step, as an administrator or a bad time server
// steps that of a machine. Go programs read the clock without the C library, so libfaketime does not work; the
// program is built with a package time that adds a distance. The source of the program is not changed.
package clock

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// The one place where package time reads both clocks, and what is put in its place. Monotonic time
// stays as it is.
const (
	reads = "\tsec, nsec, mono := runtimeNow()\n\tif mono == 0 {"
	steps = "\tsec, nsec, mono := runtimeNow()\n\tsec, nsec = stepped(sec, nsec)\n\tif mono == 0 {"
)

//go:embed stepped.go.txt
var stepped []byte

// Overlay writes into dir what a build with such a clock needs, for the Go that is installed, and
// returns the arguments for go build. The program must run on Linux. It is an error if package time
// does not read the clock in the one place that is known here.
func Overlay(dir string) ([]string, error) {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("clock: go env GOROOT: %w", err)
	}
	source := filepath.Join(strings.TrimSpace(string(out)), "src", "time")
	theirs, err := os.ReadFile(filepath.Join(source, "time.go"))
	if err != nil {
		return nil, fmt.Errorf("clock: %w", err)
	}
	if n := bytes.Count(theirs, []byte(reads)); n != 1 {
		return nil, fmt.Errorf("clock: %s/time.go reads the clock in %d places that are known here, not in one", source, n)
	}
	ours := bytes.Replace(theirs, []byte(reads), []byte(steps), 1)
	replace := map[string]string{}
	for name, text := range map[string][]byte{"time.go": ours, "stepped.go": stepped} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, text, 0o600); err != nil {
			return nil, fmt.Errorf("clock: %w", err)
		}
		replace[filepath.Join(source, name)] = file
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return nil, fmt.Errorf("clock: %w", err)
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return nil, fmt.Errorf("clock: %w", err)
	}
	return []string{"-overlay", file}, nil
}
