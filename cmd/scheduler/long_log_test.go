package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/config"
)

// Readiness reports a write-ahead log that is far too large, and stays ready.
func TestConditionOfALongLog(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lockstep.db")
	before := func() []wire.Condition { return []wire.Condition{{Name: "access", Ready: true}} }
	for name, c := range map[string]struct {
		store config.Store
		size  int64
		says  bool
	}{
		"a short one":      {config.Store{Driver: config.SQLite, DSN: path}, 1 << 20, false},
		"a long one":       {config.Store{Driver: config.SQLite, DSN: path}, 1 << 30, true},
		"none, in memory":  {config.Store{Driver: config.SQLite, DSN: ":memory:"}, 1 << 30, false},
		"of another store": {config.Store{Driver: config.MySQL, DSN: path}, 1 << 30, false},
	} {
		if err := os.WriteFile(path+"-wal", nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path+"-wal", c.size); err != nil {
			t.Fatal(err)
		}
		got := withLongLog(before, c.store)()
		if said := len(got) == 2 && got[1].Name == "log" && got[1].Ready && strings.HasPrefix(got[1].Detail, path+"-wal has 1024 MiB"); got[0].Name != "access" || said != c.says || len(got) > 1 != c.says {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
