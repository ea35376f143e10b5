package seeded

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	root   = "../../.."
	module = "github.com/lockstep-scheduler/lockstep"
)

// listed is a package as go list shows it.
type listed struct {
	ImportPath string
	Export     string // file of what others see of it
	GoFiles    []string
	Imports    []string
}

// product is the program's packages, each after those that it imports.
func product(t *testing.T) []listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Export,GoFiles,Imports", "./cmd/scheduler")
	cmd.Dir, cmd.Stderr = root, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []listed
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		switch err := dec.Decode(&p); {
		case errors.Is(err, io.EOF):
			return all
		case err != nil:
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// checker type-checks changed packages, and all that import them, against the unchanged others.
type checker struct {
	fset   *token.FileSet
	others types.Importer
	fresh  map[string]*types.Package
}

func newChecker(all []listed) *checker {
	exports := map[string]string{}
	for _, p := range all {
		exports[p.ImportPath] = p.Export
	}
	fset := token.NewFileSet()
	return &checker{fset: fset, fresh: map[string]*types.Package{}, others: importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, fmt.Errorf("nothing is known of %s", path)
		}
		return os.Open(exports[path])
	})}
}

// Import is for types.Config.
func (c *checker) Import(path string) (*types.Package, error) {
	if p := c.fresh[path]; p != nil {
		return p, nil
	}
	return c.others.Import(path)
}

func (c *checker) check(p listed, changed map[string]string) error {
	dir := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
	var files []*ast.File
	for _, name := range p.GoFiles {
		file := path.Join(dir, name)
		var text any
		if s, is := changed[file]; is {
			text = s
		}
		f, err := parser.ParseFile(c.fset, filepath.Join(root, file), text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	conf := types.Config{Importer: c}
	checked, err := conf.Check(p.ImportPath, c.fset, files, nil)
	c.fresh[p.ImportPath] = checked
	return err
}

// compiles reports the errors of a compiler for the product with these files changed.
func compiles(t *testing.T, all []listed, changed map[string]string) {
	t.Helper()
	c := newChecker(all)
	for _, p := range all {
		dir, ours := strings.CutPrefix(p.ImportPath, module+"/")
		if !ours {
			continue
		}
		is := slices.ContainsFunc(p.GoFiles, func(name string) bool { return changed[path.Join(dir, name)] != "" }) ||
			slices.ContainsFunc(p.Imports, func(name string) bool { return c.fresh[name] != nil })
		if !is {
			continue
		}
		if err := c.check(p, changed); err != nil {
			t.Errorf("%s does not compile: %v", p.ImportPath, err)
		}
	}
}
