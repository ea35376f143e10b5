package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// What a system would not compile is found for that system alone: in its files, in tests, and in what only others import; also
// where a package of the standard library lacks a name there. Bodies of other modules do not count.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":              "module example.org/m\n\ngo 1.26.0\n",
		"a.go":                "package a\n\nimport \"example.org/m/b\"\n\nvar A = b.B()\n",
		"a_test.go":           "package a\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) { t.Log(A) }\n",
		"outside_test.go":     "package a_test\n\nimport (\n\t\"testing\"\n\n\ta \"example.org/m\"\n)\n\nfunc TestOutside(t *testing.T) { t.Log(a.A) }\n",
		"b/b_unix.go":         "//go:build unix\n\npackage b\n\nimport \"syscall\"\n\nfunc B() int { return syscall.Getuid() + int(syscall.SIGUSR1) }\n",
		"b/b_windows.go":      "package b\n\nimport \"syscall\"\n\nfunc B() int { return int(syscall.SIGUSR1) }\n",
		"b/b_windows_test.go": "package b\n\nimport \"os\"\n\nvar _ = missing\n",
		"b/tagged.go":         "//go:build special\n\npackage b\n\nvar _ string = 1\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		goos, tags string
		want       []string
	}{
		{goos: "linux"},
		{goos: "darwin"},
		{goos: "darwin", tags: "special", want: []string{"tagged.go:5:16: cannot use 1"}},
		{goos: "windows", want: []string{
			"b_windows.go:5:35: undefined: syscall.SIGUSR1",
			`b_windows_test.go:3:8: "os" imported and not used`,
			"b_windows_test.go:5:9: undefined: missing",
		}},
	} {
		found, err := check(dir, c.goos, c.tags)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.EqualFunc(found, c.want, strings.Contains) {
			t.Errorf("%s, tags %q: found %q, want %q", c.goos, c.tags, found, c.want)
		}
	}
	if _, err := check(filepath.Join(dir, "nowhere"), "linux", ""); err == nil {
		t.Error("a folder that is not there is no error")
	}
}
