package layers

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The state of a task is written in one file, so that a new rule for it has one place.
func TestTaskStateIsWrittenInOneFile(t *testing.T) {
	const home = "task_state.go"
	seen := 0
	for _, name := range files(t, "store", ".go") {
		if strings.HasSuffix(name, "_test.go") || strings.Contains(name, "storetest") {
			continue
		}
		for _, w := range taskWrites(t, name, nil) {
			if filepath.Base(name) == home {
				seen++
			} else {
				t.Errorf("%s writes the state of tasks, or may: %.60q; that belongs into store/%s, and other statements name their table and columns", w.at, w.text, home)
			}
		}
	}
	if seen < 8 {
		t.Errorf("only %d statements of %s are recognised", seen, home)
	}
}

func TestTaskWritesAreRecognised(t *testing.T) {
	for code, writes := range map[string]bool{
		"t.Insert(`{tasks} (id, state)`, rows)":                           true,
		"t.Exec(`INSERT INTO {done} (id) SELECT id FROM {tasks}`)":        true,
		"t.Exec(`UPDATE {each}{tasks}{by_key} SET a=1, state=0 WHERE 1`)": true,
		"t.Exec(`UPDATE {done} SET state='lost'`)":                        true,
		"t.Exec(`{delete} {tasks} AS t WHERE 1`)":                         true,
		"t.Exec(`DELETE FROM {tasks} WHERE id=?`)":                        true,
		"t.Exec(`{delete} {done} AS t WHERE 1`)":                          false, // what has ended is forgotten
		"t.Exec(`UPDATE {tasks} SET cancel=? WHERE state=2`)":             false,
		"t.Exec(`UPDATE {jobs} SET state=?`)":                             false,
		"t.Insert(`{jobs} (id, state)`, rows)":                            false,

		// A part that is not written out may be a table of tasks, or their state.
		"t.Exec(`UPDATE ` + table + ` SET state=0`)":                           true,
		"t.Exec(`UPDATE ` + table + ` SET a=0 WHERE state=1`)":                 false,
		"t.Exec(`UPDATE ` + table + set)":                                      true,
		"t.Exec(`UPDATE {tasks} SET ` + set + ` WHERE 1`)":                     true,
		"t.Exec(`UPDATE {tasks} SET a=1 WHERE ` + owned)":                      false,
		"t.Exec(`UPDATE {tasks} ` + `SET sta` + `te=0`)":                       true,
		"t.Exec(`UPDATE {triggers} SET ` + set)":                               false,
		"t.Exec(`INSERT INTO ` + table + ` (id)`)":                             true,
		"t.Exec(`DELETE FROM ` + table)":                                       true,
		"t.Exec(fmt.Sprintf(`UPDATE %s SET state=0`, table))":                  true,
		"t.Exec(fmt.Sprintf(`INSERT INTO %smigrations (a) VALUES (1)`, by))":   false,
		"t.Exec(fmt.Sprintf(`INSERT INTO %[1]stasks (a) VALUES (1)`, prefix))": true,
		"text := `UPDATE `; text += table":                                     true,
		"text.WriteString(`UPDATE {tasks} SET `)":                              true,
		"t.Exec(f(`UPDATE {tasks} SET state=0`) + ` LIMIT 1`)":                 true,
		"t.Exec(`UPDATE ` + table + ` SET ` + set + ` WHERE 1 = 0`)":           false,
		"t.Insert(table, rows)":                                                true,
		"t.InsertNew(table + ` (id)`, rows)":                                   true,
		"upsert(t, `{tasks}`, all)":                                            true,
		"upsert(t, table, all)":                                                true,
		"upsert(t, `{kinds}`, all)":                                            false,
		"upsert[taskModel](t, `{tasks}`, all)":                                 true,

		// gorm reads.
		"table[taskModel](t).Where(`id=?`, id).Updates(m)":     true,
		"table[doneModel](t).Where(`id=?`, id).Update(`a`, 1)": true,
		"t.gorm().Save(&m)":                    true,
		"t.gorm().Create(&all)":                true,
		"t.gorm().Delete(&taskModel{}, id)":    true,
		"table[taskModel](t).Where(`state=0`)": false,
	} {
		if got := len(taskWrites(t, "code.go", "package store\nfunc f() {\n"+code+"\n}")) > 0; got != writes {
			t.Errorf("%s: it writes is %v, want %v", code, got, writes)
		}
	}
}

type taskWrite struct{ at, text string }

// unknown stands in statements for what is not written out.
const unknown = "…"

var (
	// gormWrites are methods of gorm that write. The store has no use for them: gorm reads, and statements that write are written out.
	gormWrites = []string{"Create", "CreateInBatches", "Save", "Update", "Updates", "UpdateColumn", "UpdateColumns", "Delete", "FirstOrCreate"}
	// inserts write rows into the table that one of their arguments begins with.
	inserts = map[string]int{"Insert": 0, "InsertNew": 0, "Upsert": 0, "upsert": 1}
)

// taskWrites finds what writes the state of tasks, or may, as the table or what is set is not written out.
func taskWrites(t *testing.T, name string, source any) (all []taskWrite) {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	add := func(n ast.Node, text string) {
		all = append(all, taskWrite{set.Position(n.Pos()).String(), text})
	}
	var visit func(n ast.Node) bool
	visit = func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			return n.Name.Name != "upsert" // its table is that of its callers
		case *ast.CallExpr:
			called := calledName(n.Fun)
			if _, method := n.Fun.(*ast.SelectorExpr); method && slices.Contains(gormWrites, called) {
				add(n, called)
			}
			if i, is := inserts[called]; is && len(n.Args) > i {
				if text := fold(n.Args[i]); strings.HasPrefix(text, unknown) || tasks.MatchString(text) {
					add(n, text)
				}
			}
		case *ast.BinaryExpr:
			if n.Op != token.ADD {
				return true
			}
			if text := fold(n); writesState(text) {
				add(n, text)
			}
			for _, part := range operands(n) {
				if _, literal := part.(*ast.BasicLit); !literal {
					ast.Inspect(part, visit)
				}
			}
			return false
		case *ast.BasicLit:
			if text := fold(n); writesState(text) {
				add(n, text)
			}
		}
		return true
	}
	ast.Inspect(file, visit)
	return all
}

// calledName is the name of a function or method without its package, receiver and types.
func calledName(f ast.Expr) string {
	switch f := f.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	case *ast.IndexExpr:
		return calledName(f.X)
	}
	return ""
}

// operands are the operands of a sum.
func operands(x ast.Expr) []ast.Expr {
	if sum, is := x.(*ast.BinaryExpr); is && sum.Op == token.ADD {
		return append(operands(sum.X), operands(sum.Y)...)
	}
	return []ast.Expr{x}
}

var verbs = regexp.MustCompile(`%(\[\d+\])?[sv]`)

// fold is the text of an expression, with unknown for each part that is not a literal, and for each value that Sprintf writes.
func fold(x ast.Expr) (text string) {
	for _, part := range operands(x) {
		if lit, is := part.(*ast.BasicLit); is && lit.Kind == token.STRING {
			if s, err := strconv.Unquote(lit.Value); err == nil {
				text += verbs.ReplaceAllString(s, unknown)
				continue
			}
		}
		text += unknown
	}
	return text
}

var (
	// tasks matches what a statement for inserting begins with: its table.
	tasks = regexp.MustCompile(`^\s*\{(tasks|done)\}`)
	// writing matches the verb, the table, if it is written out, and the rest.
	writing = regexp.MustCompile(`(?s)^\s*(INSERT(?: IGNORE)? INTO|REPLACE INTO|UPDATE|DELETE FROM|\{delete\})(?:\s*$|\s+(?:\{each\})?\{?([\w` + unknown + `]*)\}?(.*))$`)
	sets    = regexp.MustCompile(`(?s)\bSET\b(.*?)(?:\bWHERE\b|$)`)
	// setsState matches what is set if state is, or if it is not all written out.
	setsState = regexp.MustCompile(`\bstate\s*=|` + unknown + `|^\s*$`)
)

func writesState(text string) bool {
	m := writing.FindStringSubmatch(text)
	if m == nil {
		return false
	}
	verb, table, rest := m[1], strings.ReplaceAll(m[2], unknown, ""), m[3]
	switch {
	case table != "" && table != "tasks" && table != "done", strings.HasSuffix(rest, " WHERE 1 = 0"): // that finds out about rights
		return false
	case verb == "UPDATE":
		set := sets.FindStringSubmatch(rest)
		return set == nil || setsState.MatchString(set[1])
	}
	return table != "done" || !strings.Contains(strings.ToUpper(verb), "DELETE")
}
