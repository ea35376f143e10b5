package sqlite_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/store/sqlite"
)

func TestALongLogIsTold(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	for _, c := range []struct {
		size int64 // of the log; -1: there is none
		says bool
	}{{-1, false}, {0, false}, {256<<20 - 1, false}, {300 << 20, true}} {
		if c.size >= 0 {
			if err := os.WriteFile(path+"-wal", nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(path+"-wal", c.size); err != nil { // sparse
				t.Fatal(err)
			}
		}
		if got := sqlite.LongLog(path); (got != "") != c.says || c.says && !strings.HasPrefix(got, path+"-wal has 300 MiB: another program ") {
			t.Errorf("a log of %d bytes: %q", c.size, got)
		}
	}
}
