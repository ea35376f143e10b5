package jobs_test

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// program prints the hashes and descriptions of what it has, which is mostly function literals.
const program = `package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

type letter struct{ To string }

type shop struct{ name string }

func (s *shop) send(context.Context, jobs.Task, letter) error { return nil }

func (s *shop) literal() jobs.Handler {
	return jobs.Func(func(context.Context, jobs.Task, letter) error { _ = s.name; return nil })
}

func send(context.Context, jobs.Task, letter) error { return nil }

var global = func(context.Context, jobs.Task, letter) error { return nil }

func generic[P any](p P) jobs.Handler {
	return jobs.Func(func(context.Context, jobs.Task, P) error { _ = p; return nil })
}

func tell(team string) jobs.Handler {
	return jobs.Func(func(context.Context, jobs.Task, jobs.Notification) error { _ = len(team); return nil })
}

func around(next jobs.Handler) jobs.Handler {
	return jobs.HandlerFunc(func(ctx context.Context, t jobs.Task, out io.Writer) error { return next.Run(ctx, t, out) })
}

// forwarding says what is in it.
type forwarding struct{ jobs.Handler }

func described(h jobs.Handler) jobs.Described {
	for {
		around, wraps := h.(interface{ Unwrap() jobs.Handler })
		if is, ok := h.(jobs.Described); ok || !wraps {
			return is
		}
		h = around.Unwrap()
	}
}

func (f forwarding) Describe() string { return f.Handler.(jobs.Described).Describe() }

func set() jobs.Set {
	/* before */
	s := &shop{os.Args[0]}
	all := map[string]jobs.Handler{
		"a literal":      jobs.Func(func(context.Context, jobs.Task, letter) error { return nil }),
		"one that captures": jobs.Func(func(context.Context, jobs.Task, letter) error { _ = s; return nil }),
		"another type":   jobs.Func(func(context.Context, jobs.Task, int) error { return nil }),
		"global":         jobs.Func(global),
		"of a method":    s.literal(),
		"generic":        generic(letter{}),
		"made":           tell("red"),
		"made again":     tell("blue"),
		"made elsewhere": func() jobs.Handler { return tell("green") }(),
		"HandlerFunc":    jobs.HandlerFunc(func(context.Context, jobs.Task, io.Writer) error { return nil }),
		"wrapped":        jobs.Wrap(tell("red"), around),
		"forwarding":     forwarding{tell("red")},
		"forwarded too":  forwarding{tell("blue")},
		"named":          jobs.Named("tell red", tell("red")),
		"function":       jobs.Func(send),
		"method":         jobs.Func(s.send),
		"expression":     jobs.Func(func() func(context.Context, jobs.Task, letter) error { return s.send }()),
	}
	set := jobs.Set{Jobs: map[string]jobs.Job{}, Pools: map[string]jobs.Pool{
		"mail": {Handler: tell("mail"), Notify: jobs.Notify{Handler: tell("post")}, Kinds: jobs.Kinds(
			jobs.NewKind[letter]("mail", "letter").Handle(func(context.Context, jobs.Task, letter) error { return nil }, around),
			jobs.NewKind[letter]("mail", "card").Handle(func(context.Context, jobs.Task, letter) error { return nil }),
		)},
	}}
	n := 0
	for _, name := range slices.Sorted(maps.Keys(all)) {
		n++
		set.Jobs[fmt.Sprint("job-", n)] = jobs.Job{Description: name, Handler: all[name], Notify: jobs.Notify{Handler: tell(name)}}
	}
	return set
}

func main() {
	set := set()
	fmt.Println("valid:", set.Validate())
	for _, name := range slices.Sorted(maps.Keys(set.Jobs)) {
		job := set.Jobs[name]
		is := described(job.Handler)
		fmt.Println(name, job.Hash(), job.Description, is.Describe())
	}
	fmt.Println("mail", set.Pools["mail"].Hash())
}
`

// What a set is to other replicas stays the same when a program is edited elsewhere, and however it is compiled.
func TestLiteralsAreTheSameInEveryBuild(t *testing.T) {
	edited := strings.NewReplacer(
		"/* before */", `before := func() int { return func() int { return len(os.Args) }() }; fmt.Fprint(io.Discard, before())`,
		"	set := set()\n", "	set := func() jobs.Set { return func() jobs.Set { return set() }() }()\n",
		"func send(", "var earlier = func() int { return 1 }\n\nfunc send(",
	).Replace(program)
	if strings.Count(edited, "\n") != strings.Count(program, "\n")+2 {
		t.Fatal("nothing was edited")
	}
	want := ""
	for _, build := range []struct{ what, source, flags string }{
		{"as it was", program, ""},
		{"without inlining", program, "-l"},
		{"without optimizations", program, "-N -l"},
		{"edited elsewhere", edited, ""},
		{"edited, without inlining", edited, "-l"},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(build.source), 0o600); err != nil {
			t.Fatal(err)
		}
		binary := filepath.Join(dir, "main")
		if text, err := exec.CommandContext(t.Context(), "go", "build", "-gcflags="+build.flags, "-o", binary, filepath.Join(dir, "main.go")).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", build.what, err, text)
		}
		text, err := exec.CommandContext(t.Context(), binary).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", build.what, err, text)
		}
		if want == "" {
			want = string(text)
			if !strings.HasPrefix(want, "valid: <nil>\n") || strings.Count(want, "\n") != 19 || strings.Count(want, "func literal(main.letter)") != 5 || !strings.Contains(want, "func main.(*shop).send-fm(main.letter)") {
				t.Errorf("the program says\n%s", want)
			}
		}
		if d := cmp.Diff(want, string(text)); d != "" {
			t.Errorf("%s (-%s +this):\n%s", build.what, "as it was", d)
		}
	}
}

type func1 struct{}

func (func1) func1(context.Context, jobs.Task, int) error { return nil }

func funcs(context.Context, jobs.Task, int) error { return nil }

func func2(context.Context, jobs.Task, int) error { return nil }

// each calls do, as the loops of Go do their body.
func each(do func(int) bool) { do(0) }

// A function with a name has that, whatever it is; a literal has none, wherever it is.
func TestNamesOfFunctions(t *testing.T) {
	var inLoop jobs.Handler
	for n := range each {
		inLoop = jobs.Func(func(context.Context, jobs.Task, int) error { _ = n; return nil })
	}
	inner := func() jobs.Handler {
		return func() jobs.Handler { return jobs.Func(func(context.Context, jobs.Task, int) error { return nil }) }()
	}()
	const here = "func github.com/lockstep-scheduler/lockstep/jobs_test."
	for want, h := range map[string]jobs.Handler{
		here + "funcs(int)":               jobs.Func(funcs),
		here + "func2(int)":               jobs.Func(func2),
		here + "func1.func1-fm(int)":      jobs.Func(func1{}.func1),
		here + "(*box[...]).tell-fm(int)": jobs.Func((&box[int]{}).tell),
		"func literal(int)":               inLoop,
		"func literal":                    jobs.HandlerFunc(func(context.Context, jobs.Task, io.Writer) error { return nil }),
		"func literal(jobs_test.parcel)":  jobs.Func(func(context.Context, jobs.Task, parcel) error { return nil }),
	} {
		if described(h) != want {
			t.Errorf("described as %q, want %q", described(h), want)
		}
	}
	if described(inner) != "func literal(int)" {
		t.Errorf("a literal in a literal is described as %q", described(inner))
	}
	if described(jobs.Func((&box[int]{}).maker())) != "func literal(int)" {
		t.Errorf("a literal of a generic method is described as %q", described(jobs.Func((&box[int]{}).maker())))
	}
}

func (b *box[T]) maker() func(context.Context, jobs.Task, T) error {
	return func(context.Context, jobs.Task, T) error { return nil }
}

// Which literal a job has does not count, and what it is called with does.
func TestWhatCountsOfALiteral(t *testing.T) {
	hash := func(h jobs.Handler) string { return jobs.Job{Handler: h}.Hash() }
	one := jobs.Func(func(context.Context, jobs.Task, int) error { return nil })
	if other := jobs.Func(func(context.Context, jobs.Task, int) error { return io.EOF }); hash(one) != hash(other) {
		t.Error("two literals are two definitions")
	}
	for what, other := range map[string]jobs.Handler{
		"another payload": jobs.Func(func(context.Context, jobs.Task, string) error { return nil }),
		"a function":      jobs.Func(funcs),
		"a name":          jobs.Named("one", one),
		"no handler":      nil,
	} {
		if hash(one) == hash(other) {
			t.Errorf("%s makes no other definition", what)
		}
	}
}
