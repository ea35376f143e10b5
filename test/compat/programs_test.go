package compat

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// previous is the last commit that knows no migration but those before the newest one. It moves on
// with each migration.
const previous = "399e0acb"

const root = "../.."

func TestMain(m *testing.M) { os.Exit(servers.Main(m)) }

// build builds the scheduler from the sources in a folder.
func build(t *testing.T, sources, name string, flags ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	cmd := exec.Command("go", append(append([]string{"build", "-buildvcs=false", "-o", path}, flags...), "./cmd/scheduler")...)
	cmd.Dir = sources
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", name, err, out)
	}
	return path
}

// buildPrevious builds the program before the newest migration, from the history of this repository.
func buildPrevious(t *testing.T) (program string, genuine bool) {
	t.Helper()
	servers.ForgetResult() // the cache does not see the history
	sources := t.TempDir()
	unpack := exec.Command("sh", "-c", "git -c safe.directory='*' archive "+previous+" | tar -x -C "+sources)
	unpack.Dir = root
	_, _ = unpack.CombinedOutput() // what matters is what is there afterwards
	if _, err := os.Stat(filepath.Join(sources, "go.mod")); err == nil {
		return build(t, sources, "previous"), true
	} else if !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	t.Logf("there is no commit %s here, so the program before is this one without its newest migration", previous)
	overlay := map[string]map[string]string{"Replace": {}}
	for _, dialect := range []string{"sqlite", "mysql"} {
		files, err := filepath.Glob(filepath.Join(root, "migrations", dialect, "*.sql"))
		if err != nil || len(files) < 2 {
			t.Fatal(files, err)
		}
		newest, err := filepath.Abs(files[len(files)-1])
		if err != nil {
			t.Fatal(err)
		}
		overlay["Replace"][newest] = "" // as if it were not there
	}
	text, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(sources, "overlay.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return build(t, root, "previous", "-overlay", file), false
}
