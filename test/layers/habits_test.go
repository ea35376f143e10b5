package layers

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// habits lists calls that one kind of code must not make.
var habits = []struct {
	calls string // pkg.Name, by blanks
	in    func(name string, l layer) bool
	why   string
}{
	{"time.Sleep", product, "a sleep cannot be interrupted: wait on the context too"},
	{"os.Exit", library, "only the program may end the process"},
	{
		"log.Print log.Printf log.Println log.Fatal log.Fatalf log.Fatalln log.Panic log.Panicf log.Panicln log.SetOutput " +
			"slog.Debug slog.Info slog.Warn slog.Error slog.Default fmt.Print fmt.Printf fmt.Println",
		library, "libraries return errors; what they report goes to the logger they are given",
	},
	{"os.Getenv os.LookupEnv", library, "a library gets its settings as arguments"},
	{"t.Skip t.Skipf t.SkipNow", tests, "use servers.LeaveOut: it tells the reader of `go test ./...`"},
}

func product(name string, l layer) bool { return l <= wiring && !isTest(name) }

func library(name string, l layer) bool { return l <= interfaces && !isTest(name) }

// tests leaves out the suites: their cases skip what the Caps of a backend exclude.
func tests(name string, _ layer) bool { return isTest(name) }

func isTest(name string) bool { return strings.HasSuffix(name, "_test.go") }

func TestHabits(t *testing.T) {
	for _, p := range packages(t) {
		_, l, _ := place(p.name())
		names, err := filepath.Glob(filepath.Join("../..", p.name(), "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			for _, c := range calls(t, name, nil) {
				for _, h := range habits {
					if slices.Contains(strings.Fields(h.calls), c.name) && h.in(name, l) {
						t.Errorf("%s: %s: %s", c.at, c.name, h.why)
					}
				}
			}
		}
	}
}

type call struct{ at, name string }

// calls finds pkg.Name of imported packages, and what tests call on t.
func calls(t *testing.T, name string, src any) []call {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, src, 0)
	if err != nil {
		t.Fatal(err)
	}
	var found []call
	ast.Inspect(file, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := sel.X.(*ast.Ident); ok && (slices.Contains(file.Unresolved, x) || x.Name == "t") {
				found = append(found, call{set.Position(sel.Pos()).String(), x.Name + "." + sel.Sel.Name})
			}
		}
		return true
	})
	return found
}

func TestCallsAreSeen(t *testing.T) {
	const src = `package p
import ("time"; "log"; "testing")
func f(t *testing.T) { time.Sleep(1); t.Skip(); log.Print(); var log struct{ x int }; _ = log.x }`
	var got []string
	for _, c := range calls(t, "p.go", src) {
		got = append(got, c.name)
	}
	if want := []string{"testing.T", "time.Sleep", "t.Skip", "log.Print"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// readers may open files directly; the value is what they open.
var readers = map[string]string{
	"cmd/scheduler/console.go":                            "the terminal",
	"cmd/scheduler/enqueue.go":                            "a payload, which is data and may be a pipe",
	"cmd/scheduler/import.go":                             "a crontab, which is data and may be a pipe; /etc/timezone",
	"cmd/scheduler/init.go":                               "a new file, which it writes",
	"cmd/scheduler/token.go":                              "a file of tokens, which it adds to and has read before",
	"internal/outfile/outfile.go":                         "outputs, which it appends to; a link or FIFO is refused",
	"internal/process/process_linux.go":                   "/proc",
	"internal/trustedfile/mount_linux.go":                 "/proc",
	"internal/trustedfile/trustedfile.go":                 "it is the rule",
	"jobs/exechandler/internal/cgroup/find_linux.go":      "/proc",
	"jobs/exechandler/internal/cgroup/group_linux.go":     "files of control groups",
	"jobs/exechandler/internal/cgroup/groups_linux.go":    "files of control groups, and their folders, to lock them",
	"jobs/exechandler/internal/warden/processes_linux.go": "/proc",
	"jobs/exechandler/folders_unix.go":                    "folders of its own, to lock them",
	"jobs/exechandler/reports_unix.go":                    "what a command wrote, which is data, in a folder of its own; a link or FIFO is refused there, too",
	"store/sqlite/head.go":                                "a database, as SQLite opens it next",
	"store/sqlite/log.go":                                 "a database and what lies beside it, which SQLite opens next",
	"store/storetest/sessions.go":                         "/proc",
	"store/sqlite/writer_queue.go":                        "the file beside a database whose lock is the turn to write",
}

// A file with commands, tokens or keys could be a FIFO that hangs a replica, or belong to another user:
// package trustedfile reads all of them.
func TestFilesAreReadByTrustedfile(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range packages(t) {
		if _, l, _ := place(p.name()); l > suite {
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
			for _, c := range calls(t, name, nil) {
				if !slices.Contains([]string{"os.ReadFile", "os.Open", "os.OpenFile", "os.OpenInRoot", "ioutil.ReadFile", "tls.LoadX509KeyPair", "os.DirFS", "os.OpenRoot"}, c.name) {
					continue
				}
				file := filepath.ToSlash(strings.TrimPrefix(name, filepath.Clean("../..")+string(filepath.Separator)))
				if readers[file] == "" {
					t.Errorf("%s: %s: files are read by internal/trustedfile", c.at, c.name)
				}
				seen[file] = true
			}
		}
	}
	for file := range readers {
		if !seen[file] {
			t.Errorf("%s opens no file", file)
		}
	}
}
