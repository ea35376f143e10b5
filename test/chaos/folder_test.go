//go:build linux

package chaos

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// ending is a test as far as folder sees it.
type ending struct {
	testing.TB
	failed   bool
	said     string
	cleanups []func()
}

func (e *ending) Failed() bool { return e.failed }

func (e *ending) Cleanup(f func()) { e.cleanups = append(e.cleanups, f) }

func (e *ending) Logf(format string, args ...any) { e.said += fmt.Sprintf(format, args...) }

// A failed test names the folder of the artifacts; without artifacts there is no folder either.
func TestFolder(t *testing.T) {
	for _, c := range []struct{ chosen, failed, empty, stays, says bool }{
		{chosen: true, failed: true, stays: true, says: true},
		{chosen: true, stays: true},
		{failed: true, stays: true, says: true},
		{failed: true, empty: true},
		{},
	} {
		t.Setenv("CHAOS_DIR", "")
		t.Setenv("TMPDIR", t.TempDir())
		if c.chosen {
			t.Setenv("CHAOS_DIR", t.TempDir())
		}
		e := &ending{TB: t, failed: c.failed}
		dir := folder(e)
		if !c.empty {
			if err := os.WriteFile(filepath.Join(dir, "report.txt"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for _, f := range e.cleanups {
			f()
		}
		if _, err := os.Stat(dir); (err == nil) != c.stays {
			t.Errorf("%+v: %v", c, err)
		}
		if strings.Contains(e.said, "artifacts: "+dir) != c.says {
			t.Errorf("%+v: %q", c, e.said)
		}
	}
}
