package mutants

import (
	"bufio"
	"bytes"
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
)

// typed are the types in a package's source, which say what may replace a value.
type typed struct {
	*types.Info
	own *types.Package
}

// check finds the types in files, which are those of a package. What it imports is read as the compiler wrote it.
func check(root, dir string, fset *token.FileSet, files []*ast.File) (*typed, error) {
	cmd := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", "./"+dir)
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list -export ./%s: %w", dir, err)
	}
	exports := map[string]string{}
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		name, file, _ := strings.Cut(lines.Text(), " ")
		exports[name] = file
	}
	compiled := importer.ForCompiler(fset, "gc", func(name string) (io.ReadCloser, error) { return os.Open(exports[name]) })
	info := &types.Info{
		Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{},
		Selections: map[*ast.SelectorExpr]*types.Selection{}, Scopes: map[ast.Node]*types.Scope{},
	}
	own, err := (&types.Config{Importer: compiled}).Check(path.Base(dir), fset, files, info)
	if err != nil {
		return nil, fmt.Errorf("types of %s: %w", dir, err)
	}
	return &typed{info, own}, nil
}

// parse reads those files of a package that are built here, but for its tests.
func parse(root, dir string, fset *token.FileSet) (names []string, files []*ast.File, err error) {
	cmd := exec.Command("go", "list", "-f", `{{join .GoFiles "\n"}}`, "./"+dir)
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return nil, nil, fmt.Errorf("go list ./%s: %w", dir, err)
	}
	names = strings.Fields(string(out))
	for _, name := range names {
		f, err := parser.ParseFile(fset, filepath.Join(root, dir, name), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, nil, err
		}
		files = append(files, f)
	}
	return names, files, nil
}

// keep notes which expressions must stay variables: assigned ones, those whose address is taken, by a method
// too, and constants that the compiler needs.
func (w *writer) keep(n ast.Node) {
	all := func(n ast.Node) {
		if n != nil {
			ast.Inspect(n, func(n ast.Node) bool { w.kept[n] = true; return true })
		}
	}
	switch n := n.(type) {
	case *ast.AssignStmt:
		for _, e := range n.Lhs {
			all(e)
		}
	case *ast.IncDecStmt:
		all(n.X)
	case *ast.RangeStmt:
		if n.Key != nil {
			all(n.Key)
		}
		if n.Value != nil {
			all(n.Value)
		}
	case *ast.UnaryExpr:
		if n.Op == token.AND {
			all(n.X)
		}
	case *ast.ArrayType:
		if n.Len != nil {
			all(n.Len)
		}
	case *ast.SliceExpr:
		if _, is := w.types.TypeOf(n.X).Underlying().(*types.Array); is {
			all(n.X)
		}
	case *ast.SelectorExpr:
		w.kept[n.Sel] = true
		if s := w.types.Selections[n]; s != nil && s.Kind() == types.MethodVal {
			if _, is := s.Recv().Underlying().(*types.Pointer); !is && !types.IsInterface(s.Recv()) {
				all(n.X)
			}
		}
	case *ast.KeyValueExpr:
		if id, is := n.Key.(*ast.Ident); is {
			if v, is := w.types.Uses[id].(*types.Var); is && v.IsField() {
				w.kept[id] = true
			}
		}
	}
}

// pick replaces e by another value. Both are evaluated.
func (w *writer) pick(e ast.Expr, what, other string) {
	w.around(e, fmt.Sprintf("mutantPick(%s, ", w.number(e, what)), ", "+other+")")
}

// call makes mutants of a call: min for max, before for after, one argument replaced by another of its type, a
// copy or a context's independence removed.
func (w *writer) call(n *ast.CallExpr) {
	if !slices.ContainsFunc(n.Args, func(a ast.Expr) bool { return !pure(a) }) {
		text := func(i int) string { return w.text(n.Args[i]) }
		switch f := n.Fun.(type) {
		case *ast.Ident:
			if _, builtin := w.types.Uses[f].(*types.Builtin); builtin {
				if other := map[string]string{"min": "max", "max": "min"}[f.Name]; other != "" && w.types.Types[n].Value == nil {
					w.pick(n, other, other+w.between(n.Lparen, n.End()))
				}
				return
			}
		case *ast.SelectorExpr:
			name := f.Sel.Name
			if id, is := f.X.(*ast.Ident); is {
				if _, is := w.types.Uses[id].(*types.PkgName); is {
					switch id.Name + "." + name {
					case "slices.Clone", "maps.Clone", "bytes.Clone", "context.WithoutCancel":
						w.pick(n, "without "+id.Name+"."+name, text(0))
						return
					case "cmp.Compare", "strings.Compare", "bytes.Compare":
						w.pick(n, "turned", fmt.Sprintf("%s(%s, %s)", w.text(f), text(1), text(0)))
						return
					}
				}
			}
			if w.types.Selections[f] != nil && pure(f.X) && len(n.Args) == 1 {
				switch name {
				case "Before", "After":
					other := map[string]string{"Before": "After", "After": "Before"}[name]
					w.pick(n, other, fmt.Sprintf("%s.%s(%s)", w.text(f.X), other, text(0)))
					return
				case "Compare":
					if types.TypeString(w.types.TypeOf(n), nil) == "int" {
						w.pick(n, "turned", fmt.Sprintf("%s.Compare(%s)", text(0), w.text(f.X)))
						return
					}
				case "Add":
					if types.TypeString(w.types.TypeOf(n.Args[0]), nil) == "time.Duration" {
						w.pick(n, "other sign", fmt.Sprintf("%s.Add(-(%s))", w.text(f.X), text(0)))
						return
					}
				}
			}
		}
	}
	if n.Ellipsis.IsValid() || unseen(n) || slices.Contains([]string{"errors.Is", "os.SameFile"}, w.text(n.Fun)) {
		return
	}
	for i := range len(n.Args) - 1 {
		a, b := n.Args[i], n.Args[i+1]
		if w.value(a) && w.value(b) && w.text(a) != w.text(b) && types.Identical(w.types.TypeOf(a), w.types.TypeOf(b)) {
			number := w.number(n, fmt.Sprintf("swapped %d and %d", i+1, i+2))
			w.around(a, "mutantPick("+number+", ", ", "+w.text(b)+")")
			w.around(b, "mutantPick("+number+", ", ", "+w.text(a)+")")
		}
	}
}

// value says that an expression has a type of its own and may be evaluated once more.
func (w *writer) value(e ast.Expr) bool {
	tv := w.types.Types[e]
	return tv.IsValue() && tv.Value == nil && !tv.IsNil() && pure(e)
}

// field takes another field of the same type in the place of one.
func (w *writer) field(n *ast.SelectorExpr) {
	s := w.types.Selections[n]
	if s == nil || s.Kind() != types.FieldVal || len(s.Index()) != 1 || !pure(n.X) || !replaceable(s.Type()) {
		return
	}
	of := s.Recv().Underlying()
	if p, is := of.(*types.Pointer); is {
		of = p.Elem().Underlying()
	}
	st, is := of.(*types.Struct)
	if !is {
		return
	}
	for k := 1; k < st.NumFields(); k++ {
		other := st.Field((s.Index()[0] + k) % st.NumFields())
		if (other.Exported() || other.Pkg() == w.types.own) && !other.Embedded() && types.Identical(other.Type(), s.Type()) {
			w.pick(n, "other field "+other.Name(), w.text(n.X)+"."+other.Name())
			return
		}
	}
}

// variable takes another local variable of the same type in the place of one: that declared last before it.
func (w *writer) variable(n *ast.Ident) {
	v, is := w.types.Uses[n].(*types.Var)
	if !is || v.IsField() || v.Parent() == nil || v.Parent() == w.types.own.Scope() || !replaceable(v.Type()) {
		return
	}
	var nearest *types.Var
	for scope := w.types.own.Scope().Innermost(n.Pos()); scope != nil && scope != w.types.own.Scope(); scope = scope.Parent() {
		for _, name := range scope.Names() {
			other, is := scope.Lookup(name).(*types.Var)
			if !is || other == v || name == "_" || other.Pos() >= n.Pos() || !types.Identical(other.Type(), v.Type()) {
				continue
			}
			if _, visible := w.types.own.Scope().Innermost(n.Pos()).LookupParent(name, n.Pos()); visible != other {
				continue
			}
			if nearest == nil || other.Pos() > nearest.Pos() {
				nearest = other
			}
		}
	}
	if nearest != nil {
		w.pick(n, "other variable "+nearest.Name(), nearest.Name())
	}
}

// constant doubles a named number or time.
func (w *writer) constant(n *ast.Ident) {
	c, is := w.types.Uses[n].(*types.Const)
	if !is || c.Parent() != w.types.own.Scope() {
		return
	}
	t := w.types.TypeOf(n)
	name := types.TypeString(t, func(p *types.Package) string { return p.Name() })
	if b, is := t.Underlying().(*types.Basic); is && b.Info()&types.IsInteger != 0 && (name == "int" || name == "time.Duration" && c.Type() == t) {
		w.around(n, fmt.Sprintf("mutantPick(%s, ", w.number(n, "doubled")), fmt.Sprintf(", 2*%s)", n.Name))
	}
}

// replaceable are types whose values are easily mistaken for each other.
func replaceable(t types.Type) bool {
	switch types.TypeString(t, nil) {
	case "error", "bool", "context.Context", "*database/sql.Conn":
		return false
	}
	switch u := t.Underlying().(type) {
	case *types.Basic:
		return true
	case *types.Slice, *types.Map:
		return true
	case *types.Struct:
		return !strings.HasPrefix(types.TypeString(t, nil), "sync")
	case *types.Pointer:
		_, is := u.Elem().Underlying().(*types.Struct)
		return is
	}
	return false
}

// pure says that it does no harm to evaluate an expression once more.
func pure(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident, *ast.BasicLit:
		return true
	case *ast.SelectorExpr:
		return pure(e.X)
	case *ast.ParenExpr:
		return pure(e.X)
	case *ast.StarExpr:
		return pure(e.X)
	case *ast.IndexExpr:
		return pure(e.X) && pure(e.Index)
	case *ast.BinaryExpr:
		return e.Op != token.LAND && e.Op != token.LOR && pure(e.X) && pure(e.Y)
	case *ast.UnaryExpr:
		return e.Op == token.SUB && pure(e.X)
	case *ast.CallExpr:
		name := ""
		switch f := e.Fun.(type) {
		case *ast.Ident:
			name = f.Name
		case *ast.SelectorExpr:
			if !pure(f.X) {
				return false
			}
			name = f.Sel.Name
		}
		return slices.Contains([]string{
			"len", "cap", "min", "max", "string", "int", "int64", "micros", "fromMicros", "Add", "Sub", "Truncate", "Now", "UnixMicro", "Until", "Since",
		}, name) && !slices.ContainsFunc(e.Args, func(a ast.Expr) bool { return !pure(a) })
	}
	return false
}
