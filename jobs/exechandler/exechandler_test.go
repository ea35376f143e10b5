//go:build unix

package exechandler_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/exechandler"
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

func TestOutputKeepsItsOrder(t *testing.T) {
	out, err := run(t, exechandler.Command{Shell: "for i in 1 2 3 4 5; do echo out $i; echo err $i >&2; done"}, "")
	var want strings.Builder
	for i := range 5 {
		fmt.Fprintf(&want, "out %d\nerr %[1]d\n", i+1)
	}
	if diff := cmp.Diff(want.String(), out); diff != "" || err != nil {
		t.Errorf("%v, output (−want +got):\n%s", err, diff)
	}
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
		shell, text string
		code        int
	}{
		{"exit 3", "exit code 3", 3},
		{"kill -9 $$", "ended by a signal: killed (not by the scheduler", -1},
		{"kill -SEGV $$", "ended by a signal: segmentation fault", -1},
		{"no-such-program-here", "exit code 127", 127},
	} {
		_, err := run(t, exechandler.Command{Shell: c.shell}, "")
		var exit *jobs.ExitError
		if !errors.As(err, &exit) || exit.Code != c.code || !strings.HasPrefix(exit.Text, c.text) {
			t.Errorf("%s: got %v, want code %d and %q", c.shell, err, c.code, c.text)
		}
	}
	if _, err := run(t, exechandler.Command{Shell: "exit 0"}, ""); err != nil {
		t.Error(err)
	}
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
		_, err := run(t, c.command, "")
		var exit *jobs.ExitError
		if err == nil || errors.As(err, &exit) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %.300v, want an error with %q that is no exit code", what, err, c.says)
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
