package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A note is what --name says: nothing if that is empty, not the arguments of the command. What a message shows of it is in one line.
func TestExecNotes(t *testing.T) {
	t.Parallel()
	s := newShell(t, inStore(t))
	secret := s.start(t, "secret", "--name", "", "--", "sh", "-c", hold, "end")
	lines := s.start(t, "lines", "--", "sh", "-c", "# first\n# second\n"+hold, "end")
	wrote(t, secret, "ready")
	wrote(t, lines, "ready")
	if _, holders := s.waiting(t, "secret"); len(holders) != 1 || holders[0].Meta != "" {
		t.Errorf("with an empty name is listed %+v", holders)
	}
	code, _, errs := s.run(t, "lines", "--", "true")
	if code != exitBusy || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, "# first # second") {
		t.Errorf("exit code %d: %s", code, errs)
	}
	if err := os.WriteFile(filepath.Join(s.dir, "end"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	secret.Exit(t, 10*time.Second)
	lines.Exit(t, 10*time.Second)
}
