package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const locksPage = "docs/locks.md"

// The samples of the page about locks make one program: the first is whole, the second has the imports of the others, and
// these continue its main in the order of the page. So each compiles where a reader has typed those before it. The
// program runs to its end, where no service is reached that the machine lacks, and prints what the page says.
func TestLocksPage(t *testing.T) {
	t.Parallel()
	var samples []block
	for _, b := range blocks(t, locksPage) {
		if b.language == "go" && b.notRun == "" {
			samples = append(samples, b)
		}
	}
	if len(samples) < 10 {
		t.Fatalf("%s has %d samples", locksPage, len(samples))
	}
	first := samples[0].body
	if got := compiled(t, first); got != "working: true\n" {
		t.Errorf("%s prints %q", samples[0].at(), got)
	}
	const want = `working: true
one hold: true
leads: true
given back: true
too late: true – busy: true
the holder writes: true
an earlier one: false
`
	if got := compiled(t, joined(t, samples)); got != want {
		t.Errorf("the samples print\n%s\nwant\n%s", got, want)
	}
}

// joined is one program of samples. Errors of the compiler name their lines of the page.
func joined(t *testing.T, samples []block) string {
	t.Helper()
	head, main, found := strings.Cut(samples[0].body, "\nfunc main() {\n")
	main, whole := strings.CutSuffix(main, "}\n")
	if !found || !whole {
		t.Fatalf("%s: the first sample is not a program with main at its end", samples[0].at())
	}
	if !strings.HasPrefix(samples[1].body, "import (") {
		t.Fatalf("%s: not the imports of the other samples", samples[1].at())
	}
	text := head + "\n" + samples[1].body + "\nfunc main() {\n" + main
	for _, b := range samples[2:] {
		text += "//line " + filepath.Base(b.file) + ":" + strconv.Itoa(b.line+1) + "\n" + b.body
	}
	return text + "}\n"
}

// compiled builds a program with the packages of this module, and returns what it prints.
func compiled(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	file, program := filepath.Join(dir, "main.go"), filepath.Join(dir, "main")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, file)
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	run := exec.CommandContext(t.Context(), program)
	run.Dir = dir
	out, err := run.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}
