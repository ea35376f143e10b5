package reason

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"testing"
)

// Each code is a word that fits its column, and no two are the same.
func TestCodes(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "reason.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var declared []Code
	ast.Inspect(file, func(n ast.Node) bool {
		if c, is := n.(*ast.ValueSpec); is {
			text, err := strconv.Unquote(c.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			declared = append(declared, Code(text))
		}
		return true
	})
	if len(declared) < 25 {
		t.Fatalf("found %v", declared)
	}
	for _, c := range declared {
		if !regexp.MustCompile(`^[a-z_]{3,32}$`).MatchString(string(c)) {
			t.Errorf("%q is no code", c)
		}
	}
	slices.Sort(declared)
	if n := len(declared); len(slices.Compact(declared)) != n {
		t.Error("two are the same")
	}
}
