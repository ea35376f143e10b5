package layers

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// drawn has the files whose loop is explained otherwise; the value says how.
var drawn = map[string]string{
	"scheduler/internal/work/deadline.go": "a table of what stops an attempt; its loop looks at each attempt",
}

// steps are a numbered list; a drawing has arrows.
var (
	steps   = regexp.MustCompile(`(?s)(^|\n)[\t ]*1\. .*\n[\t ]*2\. `)
	drawing = regexp.MustCompile(`──▶`)
)

// A reader of a loop that waits sees its steps before the code, or a drawing of its states: in a comment above the first
// such loop of the file. See waitingLoop for which loops these are. A loop that waits in a function of its own, as sqlkit.Pause
// between the tries of one call, is none.
func TestLoopsHaveSteps(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range packages(t) {
		if _, l, _ := place(p.name()); l > wiring {
			continue
		}
		names, err := filepath.Glob(filepath.Join("../..", p.name(), "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if isTest(name) {
				continue
			}
			at := unexplained(t, name, nil)
			if at == "" {
				continue
			}
			file := filepath.ToSlash(strings.TrimPrefix(name, filepath.Clean("../..")+string(filepath.Separator)))
			if drawn[file] == "" {
				t.Errorf("%s: a loop that waits: write its steps (1. 2.) or a drawing (──▶) above it, in the doc comment of the type or the function", at)
			}
			seen[file] = true
		}
	}
	for file := range drawn {
		if !seen[file] {
			t.Errorf("%s needs no exception", file)
		}
	}
}

// unexplained is where the first loop of a file is that waits, if neither steps nor a drawing are above it; else "".
func unexplained(t *testing.T, name string, src any) (at string) {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, src, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var first ast.Node
	ast.Inspect(file, func(n ast.Node) bool {
		if first == nil && n != nil && waitingLoop(n) {
			first = n
		}
		return first == nil
	})
	if first == nil {
		return ""
	}
	for _, c := range file.Comments {
		if c.End() < first.Pos() && (steps.MatchString(c.Text()) || drawing.MatchString(c.Text())) {
			return ""
		}
	}
	return set.Position(first.Pos()).String()
}

// waitingLoop reports whether n is a for that waits in each turn: by a select without default, a receive or wake.Wait. A loop
// that counts to a bound, or ranges over something, ends by itself and is none.
func waitingLoop(n ast.Node) bool {
	loop, ok := n.(*ast.ForStmt)
	if !ok || loop.Init != nil && loop.Cond != nil && loop.Post != nil {
		return false
	}
	waits := false
	ast.Inspect(loop, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false // it may run elsewhere
		case *ast.SelectStmt:
			for _, c := range n.Body.List {
				if c.(*ast.CommClause).Comm == nil {
					return false // with default it does not wait
				}
			}
			waits = true
		case *ast.UnaryExpr:
			waits = waits || n.Op == token.ARROW
		case *ast.CallExpr:
			if sel, ok := n.Fun.(*ast.SelectorExpr); ok {
				x, ok := sel.X.(*ast.Ident)
				waits = waits || ok && x.Name == "wake" && sel.Sel.Name == "Wait"
			}
		}
		return true
	})
	return waits
}

func TestWaitingLoopsAreSeen(t *testing.T) {
	for src, missing := range map[string]bool{
		"func f() { for { select { case <-a: case <-b: } } }":              true,
		"func f() { for wake.Wait(ctx, d, nil) { g() } }":                  true,
		"func f() { for wait := d; wake.Wait(ctx, wait, nil); { g() } }":   true,
		"func f() { for a { <-b } }":                                       true,
		"// f is a loop.\nfunc f() { for { <-a } }":                        true,
		"// 1. f waits.\nfunc f() { for { <-a } }":                         true,
		"func f() { for { <-a } }\n\n//  1. wait\n//  2. go on\nvar g int": true,
		"//  1. wait\n//  2. go on\nfunc f() { for { <-a } }":              false,
		"//\tidle ──▶ busy\nfunc f() { for { <-a } }":                      false,
		"func f() { for { select { case <-a: default: } } }":               false,
		"func f() { for { go func() { <-a }() } }":                         false,
		"func f() { for { g() } }":                                         false,
		"func f() { for i := 0; i < 3; i++ { <-a } }":                      false,
		"func f() { for range a { <-b } }":                                 false,
	} {
		if got := unexplained(t, "p.go", "package p\n\n"+src) != ""; got != missing {
			t.Errorf("%s\nmissing: %v, want %v", src, got, missing)
		}
	}
}
