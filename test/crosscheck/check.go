package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// listed is a package as go list -json shows it.
type listed struct {
	ImportPath string
	Name       string
	Dir        string
	GoFiles    []string
	ImportMap  map[string]string // of an import path as it is written, the package that is meant
	Module     *struct {
		Main      bool
		GoVersion string
	}
	Error *struct{ Err string }
}

// check returns the type errors of the main module in dir, each once, when it is built for the system goos. The error is that of
// reading the module.
func check(dir, goos, tags string) ([]string, error) {
	env := append(os.Environ(), "GOOS="+goos, "GOARCH="+runtime.GOARCH, "CGO_ENABLED=0")
	cmd := exec.Command("go", "list", "-e", "-deps", "-test", "-tags", tags, "-json=ImportPath,Name,Dir,GoFiles,ImportMap,Module,Error", "./...")
	cmd.Dir, cmd.Env, cmd.Stderr = dir, env, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	var found []string
	checked := map[string]*types.Package{"unsafe": types.Unsafe}
	files := token.NewFileSet()
	for in := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := in.Decode(&p); errors.Is(err, io.EOF) {
			slices.Sort(found)
			return slices.Compact(found), nil // a package with tests is checked with and without them
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		if p.ImportPath == "unsafe" || strings.HasSuffix(p.ImportPath, ".test") {
			continue // the main function that go test generates
		}
		ours := p.Module != nil && p.Module.Main
		if ours && p.Error != nil {
			found = append(found, p.ImportPath+": "+p.Error.Err)
		}
		var errs []error
		if checked[p.ImportPath], errs = p.check(files, checked, ours); ours {
			for _, err := range errs {
				found = append(found, err.Error())
			}
		}
	}
}

// check checks the types of the package; bodies says whether those of its functions are read, too.
func (p *listed) check(files *token.FileSet, imports map[string]*types.Package, bodies bool) (*types.Package, []error) {
	var errs []error
	var parsed []*ast.File
	for _, name := range p.GoFiles {
		if !filepath.IsAbs(name) {
			name = filepath.Join(p.Dir, name)
		}
		f, err := parser.ParseFile(files, name, nil, parser.SkipObjectResolution)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		parsed = append(parsed, f)
	}
	c := types.Config{
		Importer:                 importer{p.ImportMap, imports},
		IgnoreFuncBodies:         !bodies,
		DisableUnusedImportCheck: !bodies,
		Sizes:                    types.SizesFor("gc", runtime.GOARCH),
		Error:                    func(err error) { errs = append(errs, err) },
	}
	if p.Module != nil && p.Module.GoVersion != "" {
		c.GoVersion = "go" + p.Module.GoVersion
	}
	path, _, _ := strings.Cut(p.ImportPath, " ") // without the test that it is compiled for
	pkg, _ := c.Check(path, files, parsed, nil)  // its first error is in errs
	return pkg, errs
}

// importer finds the imports of one package among those that were checked before it.
type importer struct {
	meant   map[string]string
	checked map[string]*types.Package
}

func (i importer) Import(path string) (*types.Package, error) {
	if meant, ok := i.meant[path]; ok {
		path = meant
	}
	if p := i.checked[path]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("%s is not there", path)
}
