package manifests

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"
)

// BuildKit reads the Dockerfile and has nothing to say against it, and the image is what is promised:
// not root, without a shell, from pinned images and from no address.
func TestDockerfile(t *testing.T) {
	ast, err := parser.Parse(strings.NewReader(read(t, "Dockerfile")))
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range ast.Warnings {
		t.Errorf("BuildKit warns: %s", w.Short)
	}
	lint := linter.New(&linter.Config{Warn: func(rule, _, _, msg string, at []parser.Range) {
		t.Errorf("BuildKit's linter: %s: %s at %v", rule, msg, at)
	}})
	stages, _, err := instructions.Parse(ast.AST, lint)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, stage := range stages {
		if !pinned(stage.BaseName) && stage.BaseName != "scratch" && !slices.Contains(names, stage.BaseName) {
			t.Errorf("FROM %s has no pinned tag", stage.BaseName)
		}
		for _, command := range stage.Commands {
			switch c := command.(type) {
			case *instructions.AddCommand:
				t.Errorf("%v: COPY says what it does, ADD guesses", c)
			case *instructions.CopyCommand:
				if c.From != "" && !slices.Contains(names, c.From) {
					t.Errorf("COPY --from=%s, which is no stage before it", c.From)
				}
			}
		}
		names = append(names, stage.Name)
	}

	last := stages[len(stages)-1]
	if last.BaseName != "scratch" {
		t.Errorf("the image is made from %s", last.BaseName)
	}
	got := map[string]string{}
	for _, command := range last.Commands {
		switch c := command.(type) {
		case *instructions.RunCommand:
			t.Error("there is nothing in the image that RUN could run")
		case *instructions.UserCommand:
			got["user"] = c.User
		case *instructions.StopSignalCommand:
			got["stop"] = c.Signal
		case *instructions.EntrypointCommand:
			got["entrypoint"] = strings.Join(c.CmdLine, " ")
			if c.PrependShell {
				t.Error("ENTRYPOINT wants a shell")
			}
		case *instructions.CmdCommand:
			got["cmd"] = strings.Join(c.CmdLine, " ")
			if c.PrependShell {
				t.Error("CMD wants a shell")
			}
		case *instructions.HealthCheckCommand:
			got["health"] = strings.Join(c.Health.Test, " ")
		case *instructions.WorkdirCommand:
			got["dir"] = c.Path
		}
	}
	for key, want := range map[string]string{
		"user": "65532:65532", "stop": "SIGTERM", "entrypoint": "/scheduler", "cmd": "serve",
		"health": "CMD /scheduler healthcheck", "dir": "/var/lib/lockstep",
	} {
		if got[key] != want {
			t.Errorf("%s is %q, want %q", key, got[key], want)
		}
	}
	goMod, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if version := goVersion(string(goMod)); !strings.HasPrefix(stages[0].BaseName, "golang:"+version) {
		t.Errorf("go.mod wants Go %s, the image is built with %s", version, stages[0].BaseName)
	}
}

// goVersion is the line of releases that a go.mod names, as in 1.26.
func goVersion(text string) string {
	for line := range strings.Lines(text) {
		if version, ok := strings.CutPrefix(strings.TrimSpace(line), "go "); ok {
			parts := strings.Split(version, ".")
			return strings.Join(parts[:2], ".")
		}
	}
	return "?"
}

// What the program is built from reaches the builder, and what can hold a secret does not.
func TestDockerignore(t *testing.T) {
	text, err := os.ReadFile("../../.dockerignore")
	if err != nil {
		t.Fatal(err)
	}
	patterns, err := ignorefile.ReadAll(strings.NewReader(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	ignored, err := patternmatcher.New(patterns)
	if err != nil {
		t.Fatal(err)
	}
	matches := func(path string) bool {
		t.Helper()
		yes, err := ignored.MatchesOrParentMatches(path)
		if err != nil {
			t.Fatal(err)
		}
		return yes
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	list := exec.Command("go", "list", "-deps", "-f",
		`{{if .Module}}{{if .Module.Main}}{{$d := .Dir}}{{range .GoFiles}}{{$d}}/{{.}}{{"\n"}}{{end}}{{range .EmbedFiles}}{{$d}}/{{.}}{{"\n"}}{{end}}{{end}}{{end}}`, "./cmd/scheduler")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	wanted := append(strings.Fields(string(out)), root+"/go.mod", root+"/go.sum", root+"/LICENSE")
	if len(wanted) < 100 {
		t.Fatalf("go list names only %d files", len(wanted))
	}
	for _, path := range wanted {
		name, err := filepath.Rel(root, path)
		if err != nil {
			t.Fatal(err)
		}
		if matches(name) {
			t.Errorf("the image needs %s, which .dockerignore keeps out", name)
		}
	}
	for _, name := range []string{".git/config", "deploy/compose/secrets/tokens", "lockstep.db", "lockstep.db-wal", "api/api_test.go", "test/bench/go.mod"} {
		if !matches(name) {
			t.Errorf(".dockerignore lets %s pass", name)
		}
	}
}
