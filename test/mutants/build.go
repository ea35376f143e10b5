package mutants

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

//go:embed statement.go
var statementGo string

//go:embed hook.go.txt
var hookGo string

// The places where database/sql passes a statement to a driver.
var hands = map[string]string{
	"return execerCtx.ExecContext(ctx, query, nvdargs)":   "return execerCtx.ExecContext(ctx, mutated(query), nvdargs)",
	"return queryerCtx.QueryContext(ctx, query, nvdargs)": "return queryerCtx.QueryContext(ctx, mutated(query), nvdargs)",
	"return ciCtx.PrepareContext(ctx, query)":             "return ciCtx.PrepareContext(ctx, mutated(query))",
}

// build compiles the tests of a package with all its mutants, each behind a switch, and returns the mutants in
// its branches and scripts; those in its SQL are known when it runs. binary must be absolute. wrap, which may
// be empty, goes before the command.
func build(root, dir, binary string, wrap []string) (*source, error) {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("go env GOROOT: %w", err)
	}
	database := filepath.Join(strings.TrimSpace(string(out)), "src", "database", "sql")
	util, err := os.ReadFile(filepath.Join(database, "ctxutil.go"))
	if err != nil {
		return nil, err
	}
	for from, to := range hands {
		if n := bytes.Count(util, []byte(from)); n != 1 {
			return nil, fmt.Errorf("database/sql hands statements to a driver in %d places %q, not in one", n, from)
		}
		util = bytes.Replace(util, []byte(from), []byte(to), 1)
	}
	s, err := mistakes(root, dir)
	if err != nil {
		return nil, err
	}
	files := map[string]string{
		filepath.Join(database, "ctxutil.go"):           string(util),
		filepath.Join(database, "mutants_hook.go"):      hookGo,
		filepath.Join(database, "mutants_statement.go"): strings.Replace(statementGo, "package mutants", "package sql", 1),
	}
	for name, text := range s.files {
		abs, err := filepath.Abs(filepath.Join(root, name))
		if err != nil {
			return nil, err
		}
		files[abs] = text
	}
	overlay, err := os.MkdirTemp(filepath.Dir(binary), "overlay")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(overlay)
	replace := map[string]string{}
	for name, text := range files {
		file := filepath.Join(overlay, fmt.Sprintf("%d.go", len(replace)))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return nil, err
		}
		replace[name] = file
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return nil, err
	}
	list := filepath.Join(overlay, "overlay.json")
	if err := os.WriteFile(list, text, 0o600); err != nil {
		return nil, err
	}
	args := append(wrap[:len(wrap):len(wrap)], "go", "test", "-c", "-overlay", list, "-o", binary, "./"+dir)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return s, nil
}
