package layers

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// shown has, for each exported name whose type is one of an internal package, the reason for it.
var shown = map[string]string{
	"store.Store.Sides":     theSides,
	"scheduler.Store.Sides": theSides,
	"api.Store.Sides":       theSides,
	"metrics.Store.Sides":   theSides,

	"scheduler.Scheduler.Definitions": theDefinitions,
	"api.Defined.Definitions":         theDefinitions,
}

const theDefinitions = "what a replica has ready of its set is for its API alone: a program hands its replica on, and another Replica does without"

const theSides = "what packages of the module ask a store for is theirs alone: a program hands its store on"

// public reports whether programs outside of the module may import the package and use what it exports. Package storetest
// tests stores of the module: what a store and a replica say to each other is internal.
func public(p string) bool {
	_, l, ok := place(p)
	return ok && l <= suite && !internal(p) && p != "cmd/scheduler" && p != "store/storetest"
}

func internal(path string) bool { return slices.Contains(strings.Split(path, "/"), "internal") }

// compiled returns the public packages as the compiler sees them.
func compiled(t *testing.T) []*types.Package {
	t.Helper()
	args := []string{"list", "-deps", "-export", "-json=ImportPath,Export"}
	for _, p := range packages(t) {
		if public(p.name()) {
			args = append(args, p.ImportPath)
		}
	}
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Stderr = "../..", os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for dec := json.NewDecoder(bytes.NewReader(out)); dec.More(); {
		var p struct{ ImportPath, Export string }
		if err := dec.Decode(&p); err != nil {
			t.Fatal(err)
		}
		files[p.ImportPath] = p.Export
	}
	from := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) { return os.Open(files[path]) })
	var pkgs []*types.Package
	for _, path := range args[4:] {
		pkg, err := from.Import(path)
		if err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, pkg)
	}
	return pkgs
}

// A program outside of the module can name the types of all that it may use, and so implement each interface.
func TestPublicTypesCanBeNamed(t *testing.T) {
	pkgs := compiled(t)
	for _, name := range []string{"jobs", "locks", "locks/redislock", "store", "scheduler", "api", "client", "metrics", "config"} {
		if !slices.ContainsFunc(pkgs, func(p *types.Package) bool { own, _ := ours(p.Path()); return own == name }) {
			t.Errorf("%s was not seen", name)
		}
	}
	found := unnamed(pkgs)
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if shown[name] == "" {
			t.Errorf("%s has the type %s, which no program outside of the module can name", name, found[name])
		}
	}
	for name := range shown {
		if found[name] == "" {
			t.Errorf("%s has no type of an internal package: leave it out here", name)
		}
	}
}

// unnamed returns the exported names that have a type of an internal package, each with that type.
func unnamed(pkgs []*types.Package) map[string]string {
	r := reader{aliased: map[*types.TypeName]bool{}, found: map[string]string{}}
	for _, pkg := range pkgs {
		r.aliases(pkg)
	}
	for _, pkg := range pkgs {
		r.read(pkg)
	}
	return r.found
}

// reader finds types of internal packages in what packages export.
type reader struct {
	aliased map[*types.TypeName]bool // types of internal packages that a public one has a name for
	found   map[string]string        // by the name that shows it, the type
}

func (r *reader) aliases(pkg *types.Package) {
	for _, name := range pkg.Scope().Names() {
		if tn, ok := pkg.Scope().Lookup(name).(*types.TypeName); ok && tn.Exported() && tn.IsAlias() {
			if n, ok := types.Unalias(tn.Type()).(*types.Named); ok {
				r.aliased[n.Obj()] = true
			}
		}
	}
}

func (r *reader) read(pkg *types.Package) {
	own, _ := ours(pkg.Path())
	for _, name := range pkg.Scope().Names() {
		o := pkg.Scope().Lookup(name)
		if !o.Exported() {
			continue
		}
		if _, isType := o.(*types.TypeName); isType {
			r.readType(own+"."+name, o.Type())
		} else {
			r.use(own+"."+name, o.Type())
		}
	}
}

// readType reads what an exported type has: what it is made of, and its methods, also those of what it embeds.
func (r *reader) readType(name string, t types.Type) {
	t = types.Unalias(t)
	r.use(name, t.Underlying())
	of := t
	if !types.IsInterface(t) {
		of = types.NewPointer(t)
	}
	for m := range types.NewMethodSet(of).Methods() {
		if m.Obj().Exported() {
			r.use(name+"."+m.Obj().Name(), m.Type())
		}
	}
}

// use reads a type that is written where name is declared.
func (r *reader) use(name string, t types.Type) {
	switch t := t.(type) {
	case *types.Alias:
		for a := range t.TypeArgs().Types() {
			r.use(name, a)
		}
		r.use(name, t.Rhs())
	case *types.Named:
		for a := range t.TypeArgs().Types() {
			r.use(name, a)
		}
		if pkg := t.Obj().Pkg(); pkg != nil && !r.aliased[t.Obj()] {
			if own, isOurs := ours(pkg.Path()); isOurs && internal(own) {
				r.found[name] = strings.ReplaceAll(t.String(), module+"/", "")
			}
		}
	case *types.Pointer:
		r.use(name, t.Elem())
	case *types.Slice:
		r.use(name, t.Elem())
	case *types.Array:
		r.use(name, t.Elem())
	case *types.Chan:
		r.use(name, t.Elem())
	case *types.Map:
		r.use(name, t.Key())
		r.use(name, t.Elem())
	case *types.Tuple:
		for v := range t.Variables() {
			r.use(name, v.Type())
		}
	case *types.Signature:
		r.use(name, t.Params())
		r.use(name, t.Results())
	case *types.Struct:
		for f := range t.Fields() {
			if f.Exported() {
				r.use(name+"."+f.Name(), f.Type())
			} else if f.Embedded() { // its exported fields are those of the type
				embedded := f.Type()
				if p, isPointer := embedded.(*types.Pointer); isPointer {
					embedded = p.Elem()
				}
				r.use(name, embedded.Underlying())
			}
		}
	case *types.Interface:
		for m := range t.Methods() {
			if m.Exported() {
				r.use(name+"."+m.Name(), m.Type())
			}
		}
	}
}

// What is shown is found wherever it is written, and nothing else is.
func TestUnnamedTypesAreFound(t *testing.T) {
	files := token.NewFileSet()
	seen := map[string]*types.Package{}
	check := func(path, source string) *types.Package {
		f, err := parser.ParseFile(files, path+".go", source, 0)
		if err != nil {
			t.Fatal(err)
		}
		c := types.Config{Importer: imports(seen)}
		if seen[module+"/"+path], err = c.Check(module+"/"+path, files, []*ast.File{f}, nil); err != nil {
			t.Fatal(err)
		}
		return seen[module+"/"+path]
	}
	check("internal/x", "package x; type T struct{ F int }; type Named struct{ Inner T }; type List[E any] []E; func (T) Own() T { return T{} }")
	found := unnamed([]*types.Package{check("jobs", `package jobs

import "`+module+`/internal/x"

type (
	Named  = x.Named
	Uses   struct{ F Named; G map[string][]*x.T; hidden x.T; x.List[int] }
	hidden struct{ F x.T }
	Embeds struct{ *hidden; inner }
	inner  struct{}
	Asks   interface{ One(Named); Two(n int, f func(chan x.T)); three(x.T) }
	More   interface{ Asks }
	Of[E any] struct{ E E }
	Is     x.T
)

var V = x.T{}
var W Of[x.T]
var own x.T

func (inner) Promoted(...x.T) {}
func (Uses) quiet(x.T)        {}
func F() (n Named, err error) { return }
func G() (t [1]x.T)           { return }
`)})
	want := []string{
		"jobs.Asks.Two", "jobs.Embeds.F", "jobs.Embeds.Promoted", "jobs.G", "jobs.More.Two", "jobs.Named.Inner", "jobs.Uses.G", "jobs.Uses.List", "jobs.V", "jobs.W",
	}
	if got := slices.Sorted(maps.Keys(found)); !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}

// imports are the packages that were checked before.
type imports map[string]*types.Package

func (i imports) Import(path string) (*types.Package, error) { return i[path], nil }
