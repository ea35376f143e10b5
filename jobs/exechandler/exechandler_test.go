//go:build unix

package exechandler_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/exechandler"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

func handler(t testing.TB, c exechandler.Command) *exechandler.Handler {
	t.Helper()
	h, err := exechandler.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// run runs c with a task that has the payload, and returns its output.
func run(t testing.TB, c exechandler.Command, payload string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var out bytes.Buffer
	err := handler(t, c).Run(ctx, jobs.Task{ID: "id", Payload: []byte(payload)}, &out)
	if ctx.Err() != nil {
		t.Fatalf("it did not end by itself: %v, output %.200q", err, out.String())
	}
	return out.String(), err
}

func TestArgumentsAreTakenAsTheyAre(t *testing.T) {
	args := []string{"printf", "%s\n", "; rm -rf /", "$(id)", "`id`", "$HOME", "a\nb", "--help", "*", ""}
	out, err := run(t, exechandler.Command{Argv: args}, "")
	if want := strings.Join(args[2:], "\n") + "\n"; err != nil || out != want {
		t.Errorf("got %q, %v, want %q", out, err, want)
	}
}

func TestPayloadIsStandardInput(t *testing.T) {
	if out, err := run(t, exechandler.Command{Argv: []string{"cat"}}, `{"a":"$(id)"}`); err != nil || out != `{"a":"$(id)"}` {
		t.Errorf("got %q, %v", out, err)
	}
	if out, err := run(t, exechandler.Command{Argv: []string{"cat"}}, ""); err != nil || out != "" {
		t.Errorf("without payload: got %q, %v", out, err)
	}
	if _, err := run(t, exechandler.Command{Argv: []string{"true"}}, strings.Repeat("x", 1<<20)); err != nil {
		t.Errorf("a payload that is not read: %v", err)
	}
}

// Each stream keeps its order, and of what waits to be read the stream that was written first is passed on first.
func TestOutputKeepsItsOrder(t *testing.T) {
	out, err := run(t, exechandler.Command{Shell: "for i in 1 2 3 4 5; do echo out $i; echo err $i >&2; done"}, "")
	lines := map[string]string{}
	for line := range strings.Lines(out) {
		lines[line[:3]] += line[4:]
	}
	if diff := cmp.Diff(map[string]string{"out": "1\n2\n3\n4\n5\n", "err": "1\n2\n3\n4\n5\n"}, lines); diff != "" || err != nil {
		t.Errorf("%v, by stream (−want +got):\n%s", err, diff)
	}
	if runtime.GOOS != "linux" {
		return
	}
	for shell, want := range map[string]string{
		"echo a; echo b >&2":             "a\nb\n",
		"echo a >&2; echo b":             "a\nb\n",
		"printf %060000d 0; echo 1 >&2":  strings.Repeat("0", 60000) + "1\n",
		"echo a >&2; echo b; echo c >&2": "a\nc\nb\n", // each stream is read once
	} {
		var out bytes.Buffer
		dir := t.TempDir()
		reads, written := filepath.Join(dir, "reads"), filepath.Join(dir, "written")
		h := handler(t, exechandler.Command{Shell: "echo first; while [ ! -e " + reads + " ]; do sleep 0.01; done; trap ': >" + written + "' EXIT; " + shell})
		err := h.Run(t.Context(), jobs.Task{}, writer(func(p []byte) {
			if out.Len() == 0 { // all else is written before it is read
				err := os.WriteFile(reads, nil, 0o600)
				await.Until(t, "all is written", func() bool { _, missing := os.Stat(written); return err == nil && missing == nil })
			}
			out.Write(p)
		}))
		if got, ok := strings.CutPrefix(out.String(), "first\n"); err != nil || !ok || got != want {
			t.Errorf("%s: %v, %.20q…%q", shell, err, got, got[max(0, len(got)-20):])
		}
	}
}

// writer is called with what is written.
type writer func([]byte)

func (w writer) Write(p []byte) (int, error) {
	w(p)
	return len(p), nil
}

// counter counts bytes and fails from a limit on.
type counter struct{ n, limit int }

func (c *counter) Write(p []byte) (int, error) {
	c.n += len(p)
	if c.n > c.limit {
		return 0, errors.New("full")
	}
	return len(p), nil
}

func TestLargeOutputHoldsNothingUp(t *testing.T) {
	h := handler(t, exechandler.Command{Argv: []string{"head", "-c", "50000000", "/dev/zero"}})
	all := &counter{limit: 1 << 30}
	if err := h.Run(t.Context(), jobs.Task{}, all); err != nil || all.n != 50_000_000 {
		t.Errorf("%d bytes, %v", all.n, err)
	}
	if err := h.Run(t.Context(), jobs.Task{}, &counter{limit: 1000}); err != nil {
		t.Errorf("with an output that takes no more: %v", err)
	}
}

func TestHowCommandsEnd(t *testing.T) {
	for _, c := range []struct {
		shell, text  string
		code, signal int
	}{
		{"exit 3", "exit code 3", 3, 0},
		{"kill -9 $$", "ended by a signal: killed (not by the scheduler", -1, 9},
		{"kill -SEGV $$", "ended by a signal: segmentation fault", -1, 11},
		{"no-such-program-here", "exit code 127: /bin/sh: ", 127, 0},
	} {
		_, err := run(t, exechandler.Command{Shell: c.shell}, "")
		var exit *jobs.ExitError
		if !errors.As(err, &exit) || exit.Code != c.code || exit.Signal != c.signal || !strings.HasPrefix(exit.Text, c.text) {
			t.Errorf("%s: got %v, want code %d and %q", c.shell, err, c.code, c.text)
		}
	}
	if _, err := run(t, exechandler.Command{Shell: "exit 0"}, ""); err != nil {
		t.Error(err)
	}
}

// The error of a command that failed by itself has the last line of its standard error that shows something; if there is none, that of standard output.
func TestWhatAFailedCommandSaidLast(t *testing.T) {
	for shell, want := range map[string]string{
		"echo fine; echo 'cannot open orders.db' >&2; exit 2":        "exit code 2: cannot open orders.db",
		"echo 'disk full' >&2; echo 'took 3 s'; exit 3":              "exit code 3: disk full",
		"(sleep 0.1; echo late >&2) & echo 'took 3 s'; exit 3":       "exit code 3: late",
		"echo only standard output; echo >&2; exit 3":                "exit code 3: only standard output",
		`printf 'red \033[31mdisk\033[0m\tfull\n\n  \n' >&2; exit 4`: "exit code 4: red disk full",
		`printf '10 %%\r20 %%\r' >&2; exit 5`:                        "exit code 5: 20 %",
		`printf 'no newline' >&2; exit 6`:                            "exit code 6: no newline",
		`printf '\377\376 bytes\n' >&2; exit 7`:                      "exit code 7: \uFFFD bytes",
		"head -c 100000 /dev/zero | tr '\\0' y; exit 8":              "exit code 8: …" + strings.Repeat("y", 197) + "…",
		"head -c 100000 /dev/zero; exit 9":                           "exit code 9",
		"echo 'stack overflow' >&2; kill -SEGV $$":                   "ended by a signal: segmentation fault: stack overflow",
	} {
		if _, err := run(t, exechandler.Command{Shell: shell}, ""); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %q", shell, err, want)
		}
	}
	// Not that of one that was stopped, and nothing that was added to its output.
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := writes(func() { cancel(errors.New("cancelled")) })
	err := handler(t, exechandler.Command{Shell: "echo working; exec sleep 300"}).Run(ctx, jobs.Task{}, stop)
	if err == nil || err.Error() != "cancelled: ended by a signal: terminated" {
		t.Errorf("stopped: %v", err)
	}
}

// writes is called with each write.
type writes func()

func (w writes) Write(p []byte) (int, error) {
	w()
	return len(p), nil
}

func TestCommandsThatCannotStart(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return file
	}
	plain := write("plain", "#!/bin/sh\n", 0o644)
	large := strings.Repeat("x", 3<<20)
	for what, c := range map[string]struct {
		command exechandler.Command
		says    string
	}{
		"not in PATH":    {exechandler.Command{Argv: []string{"no-such-program-here"}}, `"no-such-program-here" not found in PATH (/`},
		"no file":        {exechandler.Command{Argv: []string{"./nothing"}, Dir: dir}, `command "./nothing" not found`},
		"not executable": {exechandler.Command{Argv: []string{plain}}, "is it executable (chmod +x)"},
		"so in PATH":     {exechandler.Command{Argv: []string{"plain"}, Env: map[string]string{"PATH": dir}}, "is not executable; chmod +x"},
		"no interpreter": {exechandler.Command{Argv: []string{write("script", "#!/no/such/sh\n", 0o755)}}, "the interpreter that its first line"},
		"no #! line":     {exechandler.Command{Argv: []string{write("bare", "echo hello\n", 0o755)}}, "a script whose first line names its interpreter"},
		"too large":      {exechandler.Command{Argv: []string{"true", large}}, "pass large things as payload"},
		"no such folder": {exechandler.Command{Argv: []string{"true"}, Dir: filepath.Join(dir, "none")}, "working directory: "},
		"a file as one":  {exechandler.Command{Argv: []string{"true"}, Dir: plain}, "is not a directory"},
		"relative PATH":  {exechandler.Command{Argv: []string{"plain"}, Dir: dir, Env: map[string]string{"PATH": "."}}, "not found in PATH"},
		"folder as file": {exechandler.Command{Argv: []string{dir}}, "it is a folder, not a program"},
	} {
		limited := c.command
		limited.Limits = exechandler.Limits{Memory: 1 << 30, Nice: 1}
		for _, command := range []exechandler.Command{c.command, limited} {
			_, err := run(t, command, "")
			var exit *jobs.ExitError
			if err == nil || errors.As(err, &exit) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s, with limits %q: got %.300v, want an error with %q that is no exit code", what, command.Limits, err, c.says)
			}
		}
		// Errors of the system are found by a run.
		seen := !slices.Contains([]string{"no interpreter", "no #! line", "too large"}, what)
		if err := handler(t, c.command).Check(); seen && (err == nil || !strings.Contains(err.Error(), c.says)) || !seen && err != nil {
			t.Errorf("%s: its check says %.300v, want %q: %t", what, err, c.says, seen)
		}
	}
	for what, c := range map[string]exechandler.Command{
		"in PATH": {Argv: []string{"true"}}, "a line": {Shell: "no-such-program-here"}, "beside": {Argv: []string{"./script"}, Dir: dir}, "in a folder": {Argv: []string{"true"}, Dir: dir},
	} {
		if err := handler(t, c).Check(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestOneHandlerRunsManyAtOnce(t *testing.T) {
	h := handler(t, exechandler.Command{Shell: `cat; echo " $LOCKSTEP_TASK_ID"`})
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			var out bytes.Buffer
			err := h.Run(t.Context(), jobs.Task{ID: fmt.Sprint("task", i), Payload: fmt.Append(nil, i)}, &out)
			if want := fmt.Sprintf("%d task%[1]d\n", i); err != nil || out.String() != want {
				t.Errorf("got %q, %v, want %q", out.String(), err, want)
			}
		})
	}
	all.Wait()
}

func TestNewRefuses(t *testing.T) {
	for what, c := range map[string]struct {
		command exechandler.Command
		says    string
	}{
		"nothing":      {exechandler.Command{}, "the command is empty"},
		"both":         {exechandler.Command{Argv: []string{"a"}, Shell: "a"}, "exclude each other"},
		"no program":   {exechandler.Command{Argv: []string{"", "a"}}, "has no program"},
		"NUL":          {exechandler.Command{Argv: []string{"a", "b\x00c"}}, "NUL"},
		"NUL in shell": {exechandler.Command{Shell: "a\x00"}, "NUL"},
		"NUL in dir":   {exechandler.Command{Argv: []string{"a"}, Dir: "\x00"}, "NUL"},
		"grace":        {exechandler.Command{Argv: []string{"a"}, StopGrace: -1}, "out of range"},
	} {
		if _, err := exechandler.New(c.command); !errors.Is(err, jobs.ErrInvalid) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %v, want ErrInvalid with %q", what, err, c.says)
		}
	}
}

func TestDescribe(t *testing.T) {
	c := exechandler.Command{
		Argv: []string{"/opt/backup.sh", "--full"}, Env: map[string]string{"TOKEN": "s3cret", "A": "b"},
		PassEnv: []string{"AWS_*"}, Dir: "/srv", Environ: []string{"AWS_KEY=hidden"},
	}
	got := handler(t, c).Describe()
	const want = `command ["/opt/backup.sh","--full"] in "/srv" A=… TOKEN=… pass_env ["AWS_*"] grace 10s`
	if got != want {
		t.Errorf("described as %s\nwant %s", got, want)
	}
	nothing := filepath.Join(t.TempDir(), "env")
	if err := os.WriteFile(nothing, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	changes := map[string]func(*exechandler.Command){
		"an argument": func(c *exechandler.Command) { c.Argv = []string{"/opt/backup.sh"} },
		"shell":       func(c *exechandler.Command) { c.Argv, c.Shell = nil, "/opt/backup.sh --full" },
		"a value":     func(c *exechandler.Command) { c.Env = map[string]string{"TOKEN": "other", "A": "b"} },
		"pass_env":    func(c *exechandler.Command) { c.PassEnv = nil },
		"env_file":    func(c *exechandler.Command) { c.EnvFiles = []string{nothing} },
		"dir":         func(c *exechandler.Command) { c.Dir = "/" },
		"grace":       func(c *exechandler.Command) { c.StopGrace = time.Minute },
		"cpu":         func(c *exechandler.Command) { c.Limits.CPU = 0.5 },
		"memory":      func(c *exechandler.Command) { c.Limits.Memory = 1 << 30 },
		"nice":        func(c *exechandler.Command) { c.Limits.Nice = 1 },
	}
	for what, change := range changes {
		altered := c
		change(&altered)
		if handler(t, altered).Identity() == handler(t, c).Identity() {
			t.Errorf("a change of %s does not count", what)
		}
	}
	if got := handler(t, exechandler.Command{Argv: []string{"a", "b&c<d>"}}).Describe(); got != `command ["a","b&c<d>"] grace 10s` {
		t.Errorf("described as %s", got)
	}
	const same = `command ["/opt/backup.sh","--full"] in "/srv" A=#64409e69 TOKEN=#66a81371 pass_env ["AWS_*"] grace 10s`
	if got := handler(t, c).Identity(); got != same { // or every database would see an edited definition
		t.Errorf("the identity is %s, want %s", got, same)
	}
}
