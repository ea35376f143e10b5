package mutants

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/printer"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// mutant is a mutation of the Go source, or of a script, which a switch turns on.
type mutant struct {
	name   string
	line   int
	script bool // it is in what a server runs, see scripts
}

// source is a package with all mutants of its branches and its scripts, each behind a switch.
type source struct {
	mutants []mutant
	files   map[string]string // changed text, by path below root
}

// mistakes writes all mutants of a package, "scheduler", into its source, but for those in its SQL.
func mistakes(root, dir string) (*source, error) {
	s, err := branches(root, dir)
	if err == nil {
		err = s.scripts(root, dir)
	}
	return s, err
}

// branches are the mutants in the Go source: each condition and each operand of one forced either way, each
// bound of a comparison moved by one, each statement removed that can be; and values replaced by others, see
// values.go. Code that only passes an error on is left alone: it takes a failing server, and has its own tests.
func branches(root, dir string) (*source, error) {
	fset := token.NewFileSet()
	named, files, err := parse(root, dir, fset)
	if err != nil {
		return nil, err
	}
	known, err := check(root, dir, fset, files)
	if err != nil {
		return nil, err
	}
	s := &source{files: map[string]string{}}
	names := map[string]int{}
	for i, parsed := range files {
		file := path.Join(dir, named[i])
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			return nil, err
		}
		w := &writer{s: s, fset: fset, file: file, source: string(text), names: names, types: known, kept: map[ast.Node]bool{}}
		for _, d := range parsed.Decls {
			if f, is := d.(*ast.FuncDecl); is && f.Body != nil {
				w.function = functionName(f)
				ast.Walk(w, f.Body)
			}
		}
		s.files[file] = w.apply(string(text))
	}
	pkg := known.own.Name()
	s.files[path.Join(dir, "mutants_switch.go")] = "package " + pkg + switches
	return s, nil
}

// switches turn the mutants on, one in a run.
const switches = `

import (
	"cmp"
	"os"
	"strconv"
	"sync/atomic"
)

var (
	mutantOn   = os.Getenv("LOCKSTEP_MUTANT_NUMBER")
	mutantSeen = func() *os.File {
		f, _ := os.OpenFile(os.Getenv("LOCKSTEP_MUTANTS_SEEN"), os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
		return f
	}()
	mutantsKnown [1 << 16]atomic.Bool
)

func mutantIs(n string) bool {
	if mutantSeen != nil {
		if i, _ := strconv.Atoi(n); !mutantsKnown[i].Load() && !mutantsKnown[i].Swap(true) {
			mutantSeen.WriteString(strconv.Itoa(i) + "\n")
		}
	}
	return n == mutantOn
}

func mutantForced(n string, to, is bool) bool {
	if mutantIs(n) {
		return to
	}
	return is
}

func mutantPick[T any](n string, is, other T) T {
	if mutantIs(n) {
		return other
	}
	return is
}

func mutantBound[T cmp.Ordered](n string, a, b T, op string) bool {
	other := mutantIs(n)
	switch op {
	case "<":
		return a < b || other && a == b
	case "<=":
		return a < b || !other && a == b
	case ">":
		return a > b || other && a == b
	}
	return a > b || !other && a == b
}
`

func functionName(f *ast.FuncDecl) string {
	if f.Recv == nil || len(f.Recv.List) == 0 {
		return f.Name.Name
	}
	t := f.Recv.List[0].Type
	if p, is := t.(*ast.StarExpr); is {
		t = p.X
	}
	if g, is := t.(*ast.IndexExpr); is {
		t = g.X
	}
	if id, is := t.(*ast.Ident); is {
		return id.Name + "." + f.Name.Name
	}
	return f.Name.Name
}

// writer collects the changes of one file.
type writer struct {
	s        *source
	fset     *token.FileSet
	file     string
	source   string
	function string
	names    map[string]int
	types    *typed
	kept     map[ast.Node]bool // assigned, or its address is taken
	edits    []edit
}

// edit puts text at a place, instead of what is there up to end.
type edit struct {
	at, end int
	text    string
	closes  bool
	span    int // of the node that it is about: what is wider goes outside
	turn    int // of two about the same node, the first goes outside
}

// text is how a node stands in the source.
func (w *writer) text(n ast.Node) string { return w.between(n.Pos(), n.End()) }

func (w *writer) between(from, to token.Pos) string { return w.source[w.offset(from):w.offset(to)] }

func (w *writer) offset(p token.Pos) int { return w.fset.Position(p).Offset }

// number adds a mutant and returns its number as text.
func (w *writer) number(n ast.Node, what string) string {
	var b strings.Builder
	_ = printer.Fprint(&b, token.NewFileSet(), n)
	text := strings.Join(strings.Fields(b.String()), " ")
	if len(text) > 90 {
		text = text[:90] + "…"
	}
	name := fmt.Sprintf("%s %s GO %s: %s", w.file, w.function, what, text)
	if w.names[name]++; w.names[name] > 1 {
		name += fmt.Sprintf(" (%d)", w.names[name])
	}
	w.s.mutants = append(w.s.mutants, mutant{name: name, line: w.fset.Position(n.Pos()).Line})
	return fmt.Sprintf("%q", fmt.Sprint(len(w.s.mutants)-1))
}

func (w *writer) around(n ast.Node, before, after string) {
	from, to := w.offset(n.Pos()), w.offset(n.End())
	turn := len(w.edits)
	w.edits = append(w.edits, edit{from, from, before, false, to - from, turn}, edit{to, to, after, true, to - from, turn})
}

func (w *writer) force(e ast.Expr, to bool, what string) {
	w.around(e, fmt.Sprintf("mutantForced(%s, %v, ", w.number(e, what), to), ")")
}

// Visit is for ast.Walk.
func (w *writer) Visit(n ast.Node) ast.Visitor {
	w.keep(n)
	switch n := n.(type) {
	case *ast.CallExpr:
		w.call(n)
	case *ast.SelectorExpr:
		if !w.kept[n] {
			w.field(n)
		}
	case *ast.Ident:
		if !w.kept[n] {
			w.variable(n)
			w.constant(n)
		}
	case *ast.GenDecl:
		if n.Tok == token.CONST {
			return nil
		}
	case *ast.IfStmt:
		w.condition(n.Cond, true)
	case *ast.ForStmt:
		if n.Cond != nil {
			w.condition(n.Cond, false)
		}
	case *ast.SwitchStmt:
		if n.Tag == nil {
			for _, c := range n.Body.List {
				for _, e := range c.(*ast.CaseClause).List {
					w.condition(e, true)
				}
			}
		}
	case *ast.BinaryExpr:
		switch n.Op {
		case token.LAND, token.LOR:
			for _, e := range []ast.Expr{n.X, n.Y} {
				if op := operator(e); op != n.Op && !passesError(e) {
					w.force(e, n.Op == token.LAND, "without "+n.Op.String())
				}
			}
		case token.LSS, token.LEQ, token.GTR, token.GEQ:
			w.around(n, fmt.Sprintf("mutantBound(%s, ", w.number(n, "bound")), fmt.Sprintf(", %q)", n.Op))
			at := w.offset(n.OpPos)
			w.edits = append(w.edits, edit{at, at + len(n.Op.String()), ",", false, 0, 0})
		}
	case *ast.BlockStmt:
		w.statements(n.List)
	case *ast.CaseClause:
		w.statements(n.Body)
	case *ast.CommClause:
		w.statements(n.Body)
	}
	return w
}

// condition is forced as a whole. Each operand is forced in Visit.
func (w *writer) condition(e ast.Expr, both bool) {
	if passesError(e) {
		return
	}
	w.force(e, false, "never")
	if both {
		w.force(e, true, "always")
	}
}

func operator(e ast.Expr) token.Token {
	if b, is := e.(*ast.BinaryExpr); is {
		return b.Op
	}
	return token.ILLEGAL
}

// passesError says that a condition is whether there was an error.
func passesError(e ast.Expr) bool {
	b, is := e.(*ast.BinaryExpr)
	if !is || b.Op != token.NEQ && b.Op != token.EQL {
		return false
	}
	x, isX := b.X.(*ast.Ident)
	y, isY := b.Y.(*ast.Ident)
	return isX && isY && x.Name == "err" && y.Name == "nil"
}

func (w *writer) statements(list []ast.Stmt) {
	for _, s := range list {
		switch s := s.(type) {
		case *ast.ExprStmt:
			if call, is := s.X.(*ast.CallExpr); is && !unseen(call) {
				w.leaveOut(s)
			}
		case *ast.AssignStmt:
			if s.Tok != token.DEFINE && !blank(s) {
				w.leaveOut(s)
			}
		case *ast.IncDecStmt, *ast.SendStmt, *ast.GoStmt:
			w.leaveOut(s)
		case *ast.BranchStmt:
			if s.Tok == token.CONTINUE {
				w.leaveOut(s)
			}
		}
	}
}

// unseen are calls whose absence no test can see, or without which a test does not end.
func unseen(call *ast.CallExpr) bool {
	name := ""
	switch f := call.Fun.(type) {
	case *ast.Ident:
		name = f.Name
	case *ast.SelectorExpr:
		name = f.Sel.Name
		if x, is := f.X.(*ast.SelectorExpr); is && x.Sel.Name == "log" {
			return true
		}
	}
	return slices.Contains([]string{"panic", "Lock", "Unlock", "RLock", "RUnlock", "Done", "Close", "cancel", "WriteString", "WriteByte", "Helper"}, name)
}

func blank(s *ast.AssignStmt) bool {
	return !slices.ContainsFunc(s.Lhs, func(e ast.Expr) bool { id, is := e.(*ast.Ident); return !is || id.Name != "_" })
}

func (w *writer) leaveOut(s ast.Stmt) {
	w.around(s, fmt.Sprintf("if !mutantIs(%s) { ", w.number(s, "left out")), " }")
}

// apply makes the changes. At one place, what ends comes before what begins, the inner end and the outer
// beginning first.
func (w *writer) apply(text string) string {
	slices.SortStableFunc(w.edits, func(a, b edit) int {
		if c := cmp.Compare(a.at, b.at); c != 0 {
			return c
		}
		if a.closes != b.closes {
			if a.closes {
				return -1
			}
			return 1
		}
		if a.closes {
			return cmp.Or(cmp.Compare(a.span, b.span), cmp.Compare(b.turn, a.turn))
		}
		return cmp.Or(cmp.Compare(b.span, a.span), cmp.Compare(a.turn, b.turn))
	})
	var b strings.Builder
	last := 0
	for _, e := range w.edits {
		b.WriteString(text[last:e.at])
		b.WriteString(e.text)
		last = max(last, e.end)
	}
	b.WriteString(text[last:])
	return b.String()
}
