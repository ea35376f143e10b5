package summary

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// On a machine without Redis `go test` is green and ends with what it left out, each time it is run.
func TestLastLines(t *testing.T) {
	bin := t.TempDir()
	for _, name := range []string{"go", "gcc", "cc", "clang"} {
		if found, err := exec.LookPath(name); err == nil {
			if err := os.Symlink(found, filepath.Join(bin, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "PATH=") || strings.HasPrefix(v, "LOCKSTEP_TEST_") || strings.HasPrefix(v, "CGO_ENABLED=")
	})
	args := append([]string{"test"}, buildFlags...)
	args = append(args, "-run", "^TestRedis$|^TestNothingIsLeftOut$", "../servers", ".")
	want := regexp.MustCompile(`(?s)^ok [^\n]*test/servers[^\n]*\n-+\n` +
		`LEFT OUT[^\n]*\n  test/servers: 1 test: needs Redis, and this machine has no redis-server\nok [^\n]*test/summary[^\n]*\n$`)
	for range 2 {
		out, err := os.Create(filepath.Join(t.TempDir(), "output"))
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		cmd := exec.Command(filepath.Join(bin, "go"), args...)
		cmd.Env = append(env, "PATH="+bin)
		cmd.Stdout, cmd.Stderr = out, out
		if err := cmd.Run(); err != nil {
			t.Errorf("go test: %v", err)
		}
		text, err := os.ReadFile(out.Name())
		if err != nil {
			t.Fatal(err)
		}
		if !want.Match(text) {
			t.Errorf("go test printed:\n%s", text)
		}
	}
}

// The summary is last only if no package sorts after this one.
func TestLastPackage(t *testing.T) {
	list := exec.Command("go", "list", "-e", "./...")
	list.Dir = "../.."
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	if names := strings.Fields(string(out)); !strings.HasSuffix(names[len(names)-1], "/test/summary") {
		t.Errorf("%s comes after test/summary", names[len(names)-1])
	}
}
