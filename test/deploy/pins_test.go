package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Tags can be moved to other content: actions are pinned to commits and images to digests, with the release beside
// them.
var (
	pinnedAction = regexp.MustCompile(`^[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)
	pinnedImage  = regexp.MustCompile(`^[\w./:-]+:\d+\.\d+\.\d+[\w.-]*@sha256:[0-9a-f]{64}$`)
	ownImage     = regexp.MustCompile(`^lockstep:[\w.]+$`)
	names        = regexp.MustCompile(`(?m)^[\s-]*(uses|image|container): *([^#\s].*)$|^(FROM) (?:--platform=\S+ )?(\S+)`)
)

// unpinned lists the actions and images of a file without a pin.
func unpinned(text string) (bad []string, seen int) {
	for _, m := range names.FindAllStringSubmatch(text, -1) {
		what, value := m[1]+m[3], strings.TrimSpace(m[2]+m[4])
		fine := pinnedImage.MatchString(value) || ownImage.MatchString(strings.Fields(value)[0]) || value == "scratch"
		if what == "uses" {
			fine = pinnedAction.MatchString(value)
		}
		seen++
		if !fine {
			bad = append(bad, what+" "+value)
		}
	}
	return bad, seen
}

func TestActionsAndImagesArePinned(t *testing.T) {
	all := 0
	for _, pattern := range []string{".github/workflows/*.y*ml", "deploy/Dockerfile", "deploy/compose.yaml", "deploy/kubernetes/*.yaml"} {
		files, err := filepath.Glob(filepath.Join("../..", pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v, %v", pattern, files, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			bad, seen := unpinned(string(text))
			for _, what := range bad {
				t.Errorf("%s: %s: name the commit or the digest, and the release", file, what)
			}
			all += seen
		}
	}
	if all < 15 {
		t.Errorf("only %d names seen", all)
	}
}

var (
	language  = regexp.MustCompile(`(?m)^go (\d+\.\d+\.\d+)$`)
	toolchain = regexp.MustCompile(`(?m)^toolchain go(\d+\.\d+\.\d+)$`)
	goImage   = regexp.MustCompile(`\bgolang:(\d[\d.]*)`)
)

// releaseOf is the release of Go that a go.mod names: its line toolchain, or its line go where that names the same. The go
// command takes away a line toolchain that says no more than the line go.
func releaseOf(module string) string {
	for _, line := range []*regexp.Regexp{toolchain, language} {
		if m := line.FindStringSubmatch(module); m != nil {
			return m[1]
		}
	}
	return ""
}

// One release of Go builds everything: the one that go.mod names.
func TestToolchainIsPinned(t *testing.T) {
	release := func(file string) string {
		module, err := os.ReadFile(filepath.Join("../..", file))
		if err != nil {
			t.Fatal(err)
		}
		return releaseOf(string(module))
	}
	pinned := release("go.mod")
	if pinned == "" {
		t.Fatal("go.mod has no line toolchain with a release: go mod edit -toolchain=go1.x.y")
	}
	modules, err := filepath.Glob("../../test/*/go.mod")
	if err != nil || len(modules) < 2 {
		t.Fatalf("%v, %v", modules, err)
	}
	for _, module := range modules {
		file := strings.TrimPrefix(filepath.ToSlash(module), "../../")
		if got := release(file); got != pinned {
			t.Errorf("%s names Go %s, go.mod names %s: go mod edit -toolchain=go%s", file, got, pinned, pinned)
		}
	}
	for _, file := range []string{"deploy/Dockerfile", ".github/workflows/ci.yml"} {
		text, err := os.ReadFile(filepath.Join("../..", file))
		if err != nil {
			t.Fatal(err)
		}
		images := goImage.FindAllSubmatch(text, -1)
		if len(images) == 0 {
			t.Errorf("%s names no image of Go", file)
		}
		for _, image := range images {
			if string(image[1]) != pinned {
				t.Errorf("%s builds with Go %s, go.mod names %s", file, image[1], pinned)
			}
		}
	}
}

func TestUnpinnedIsRecognised(t *testing.T) {
	commit, digest := strings.Repeat("0a", 20), "@sha256:"+strings.Repeat("0a", 32)
	for line, fine := range map[string]bool{
		"  - uses: actions/checkout@v4":                                   false,
		"  - uses: actions/checkout@" + commit:                            false,
		"    uses: actions/checkout@" + commit[1:] + " # v4.4.0":          false,
		"  - uses: actions/checkout@" + commit + " # v4.4.0":              true,
		"  - uses: github/codeql-action/init@" + commit + " # v3.36.2":    true,
		"container: golang:1.26.8-bookworm":                               false,
		"        image: mysql" + digest:                                   false,
		"        image: mysql:8.4.9" + digest:                             true,
		"          image: lockstep:0.1           # yours in front":        true,
		"FROM --platform=$BUILDPLATFORM golang:1.26-bookworm AS build":    false,
		"FROM --platform=$BUILDPLATFORM golang:1.26.8" + digest + " AS b": true,
		"FROM scratch": true,
	} {
		if bad, seen := unpinned(line); (bad == nil) != fine || seen != 1 {
			t.Errorf("%s: %v, %d seen", line, bad, seen)
		}
	}
}

// What a user would not want to publish stays out of commits and images.
func TestSecretsAreIgnored(t *testing.T) {
	for _, file := range []string{"tokens.yaml", "deploy/tokens.yaml", "ci.token", "lockstep.db", "lockstep.db-wal", "lockstep.db-turn", "x/old.db.bak"} {
		cmd := exec.Command("git", "check-ignore", "-q", "--no-index", file)
		cmd.Dir = "../.."
		if err := cmd.Run(); err != nil {
			t.Errorf("git does not ignore %s: %v", file, err)
		}
	}
	text, err := os.ReadFile("../../.dockerignore")
	if err != nil {
		t.Fatal(err)
	}
	for _, pattern := range []string{"**/tokens.yaml", "**/*.token", "**/*.db*"} {
		if !strings.Contains("\n"+string(text), "\n"+pattern+"\n") {
			t.Errorf(".dockerignore has no line %s", pattern)
		}
	}
}
