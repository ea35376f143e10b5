//go:build unix

package exechandler_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/internal/identity"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/exechandler"
)

// environ returns what env(1) sees, without the variables of the task.
func environ(t *testing.T, c exechandler.Command) []string {
	t.Helper()
	c.Argv = []string{"/usr/bin/env"}
	out, err := run(t, c, "")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	own := slices.DeleteFunc(slices.Clone(lines), func(l string) bool {
		return !strings.HasPrefix(l, "LOCKSTEP_") && !strings.HasPrefix(l, "TRACEPARENT=")
	})
	if len(own) != len(identity.Of(jobs.Task{})) || !slices.Contains(own, "LOCKSTEP_TASK_ID=id") {
		t.Errorf("the task's own variables: %q", own)
	}
	rest := slices.DeleteFunc(lines, func(l string) bool { return slices.Contains(own, l) })
	slices.Sort(rest)
	return rest
}

func TestEnvironmentIsAnAllowList(t *testing.T) {
	t.Setenv("OF_THIS_PROCESS", "must not be seen")
	machine := []string{
		"PATH=/usr/bin:/bin", "HOME=/root", "LANG=C", "TZ=UTC", "USER=root", "AWS_KEY=k", "AWS_REGION=r", "AZURE=z",
		"LD_PRELOAD=/evil.so", "BASH_ENV=/evil.sh", "DYLD_X=1", "LOCKSTEP_JOB=forged", "TRACEPARENT=forged", "=odd", "none",
	}
	standard := []string{"HOME=/root", "LANG=C", "PATH=/usr/bin:/bin", "TZ=UTC"}
	for what, c := range map[string]struct {
		command exechandler.Command
		want    []string
	}{
		"nothing given": {exechandler.Command{}, []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}},
		"standard":      {exechandler.Command{Environ: machine}, standard},
		"patterns":      {exechandler.Command{Environ: machine, PassEnv: []string{"AWS_*", "NONE"}}, append([]string{"AWS_KEY=k", "AWS_REGION=r"}, standard...)},
		"all":           {exechandler.Command{Environ: machine, PassEnv: []string{"*"}}, append([]string{"AWS_KEY=k", "AWS_REGION=r", "AZURE=z", "USER=root"}, standard...)},
		"env wins": {
			exechandler.Command{Environ: machine, PassEnv: []string{"AWS_KEY"}, Env: map[string]string{"AWS_KEY": "mine", "TZ": "", "LD_PRELOAD_X": "meant", "B": "a b=$HOME\n"}},
			[]string{"AWS_KEY=mine", "B=a b=$HOME", "HOME=/root", "LANG=C", "LD_PRELOAD_X=meant", "PATH=/usr/bin:/bin", "TZ="},
		},
	} {
		slices.Sort(c.want)
		got := slices.DeleteFunc(environ(t, c.command), func(l string) bool { return l == "" })
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (−want +got):\n%s", what, diff)
		}
	}
}

func TestEnvFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	first := write("first", "\ufeff# comment\r\n\r\nA=1\r\n  # more\nB=a = \"b\" # no comment\nC=\"quoted # \"\nD='x'\nE=\n")
	second := write("second", "A=2\nLAST=no newline")
	got := environ(t, exechandler.Command{EnvFiles: []string{first, second}, Env: map[string]string{"E": "env"}, Environ: []string{"PATH=/bin"}})
	want := []string{"A=2", `B=a = "b" # no comment`, "C=quoted # ", "D=x", "E=env", "LAST=no newline", "PATH=/bin"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("environment (−want +got):\n%s", diff)
	}

	bad := write("bad", "OK=1\nno equals\nA B=x\n=x\nexport C=1\nQ=\"open s3cret\nOK=2\nLD_PRELOAD=/x\nLOCKSTEP_JOB=x\nN=s3cret\x00\n")
	_, err := exechandler.New(exechandler.Command{Argv: []string{"a"}, EnvFiles: []string{bad, filepath.Join(dir, "none"), dir}})
	if !errors.Is(err, jobs.ErrInvalid) {
		t.Fatalf("got %v, want ErrInvalid", err)
	}
	for _, says := range []string{
		bad + ":2: there is no =", bad + `:3: "A B" is not a name`, bad + `:4: "" is not a name`, bad + `:5: "export C" is not a name`,
		bad + ":6: the value of \"Q\" has an opening quote", bad + ":7: OK is given twice", bad + ":8: LD_PRELOAD makes programs load",
		bad + ":9: LOCKSTEP_JOB is set for each task", bad + ":10: the value of N has a NUL", "none: no such file", "is a folder, not a regular file",
	} {
		if !strings.Contains(err.Error(), says) {
			t.Errorf("%q is missing in\n%v", says, err)
		}
	}
	if strings.Contains(err.Error(), "s3cret") {
		t.Errorf("a value is shown in\n%v", err)
	}
	huge := write("huge", strings.Repeat("#", 2<<20))
	if _, err := exechandler.New(exechandler.Command{Argv: []string{"a"}, EnvFiles: []string{huge}}); err == nil || !strings.Contains(err.Error(), "is larger than") {
		t.Errorf("a huge file: %v", err)
	}
}

func TestVariablesThatAreRefused(t *testing.T) {
	for _, c := range []exechandler.Command{
		{Env: map[string]string{"A=B": "x"}},
		{Env: map[string]string{"": "x"}},
		{Env: map[string]string{"A\x00": "x"}},
		{Env: map[string]string{"A": "s3cret\x00"}},
		{Env: map[string]string{"LOCKSTEP_JOB": "x"}},
		{Env: map[string]string{"1A": "x"}},
		{PassEnv: []string{""}},
		{PassEnv: []string{"A=B"}},
		{PassEnv: []string{"[A"}, Environ: []string{"A=1"}},
		{PassEnv: []string{"LD_PRELOAD"}},
		{PassEnv: []string{"LD_*"}},
	} {
		c.Argv = []string{"a"}
		if _, err := exechandler.New(c); !errors.Is(err, jobs.ErrInvalid) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%+v: got %v, want ErrInvalid", c, err)
		}
	}
}
