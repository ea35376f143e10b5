//go:build unix

package exechandler_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/exechandler"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

// told keeps what a command reports.
type told struct {
	mu       sync.Mutex
	progress []string
	result   string
}

func (r *told) ReportProgress(done float64, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	number, _ := json.Marshal(done)
	r.progress = append(r.progress, string(number)+" "+text)
}

func (r *told) ReportResult(result json.RawMessage) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result = string(result)
	return nil
}

func (r *told) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.progress)
}

// report runs a line of the shell with a reporter.
func report(t *testing.T, shell string) (r *told, out string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	r = &told{}
	var all bytes.Buffer
	err = handler(t, exechandler.Command{Shell: shell}).Run(ctx, jobs.Task{ID: "id", Reporter: r}, &all)
	if ctx.Err() != nil {
		t.Fatalf("it did not end by itself: %v, output %.200q", err, all.String())
	}
	return r, all.String(), err
}

// The last whole line of the file is the progress, as soon as it is there.
func TestACommandReportsItsProgress(t *testing.T) {
	t.Parallel()
	next := filepath.Join(t.TempDir(), "next")
	r := &told{}
	ended := make(chan error, 1)
	go func() {
		ended <- handler(t, exechandler.Command{Shell: `
			await() { until [ -e "$NEXT$1" ]; do sleep 0.02; done; }
			echo "0.25 one of four" >> "$LOCKSTEP_PROGRESS_FILE"; await 0
			printf '30%%\n50%% two of four\n\n0.9 not yet' >> "$LOCKSTEP_PROGRESS_FILE"; await 1
			echo 1 > "$LOCKSTEP_PROGRESS_FILE"; await 2`, Env: map[string]string{"NEXT": next}}).Run(t.Context(), jobs.Task{ID: "id", Reporter: r}, &bytes.Buffer{})
	}()
	for i, want := range []string{"0.25 one of four", "0.5 two of four", "1 "} {
		await.Until(t, "the progress "+want+" is reported", func() bool { all := r.all(); return len(all) > 0 && all[len(all)-1] == want })
		if err := os.WriteFile(next+strconv.Itoa(i), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// What is no progress is said once, and the exit code decides all the same.
func TestAWrongProgressIsSaidOnce(t *testing.T) {
	t.Parallel()
	for shell, want := range map[string]string{
		`echo 40 of 100`:                 `the line "40 of 100" does not begin with a number`,
		`echo; echo half done`:           `the line "half done" does not`,
		`echo NaN x`:                     `the line "NaN x" does not`,
		`echo -1% x`:                     `the line "-1% x" does not`,
		`echo 101%`:                      `the line "101%" does not`,
		`head -c 5000 /dev/zero; echo`:   `a line is longer than 4095 bytes`,
		`printf '\033[31m\n'`:            `the line "\x1b[31m" does not`,
		`echo 0.5 fine; echo -n no line`: "",
		`:`:                              "",
	} {
		r, out, err := report(t, "{ "+shell+"; } > $LOCKSTEP_PROGRESS_FILE; echo said")
		if err != nil || !strings.HasPrefix(out, "said\n") {
			t.Errorf("%s: %v, output %q", shell, err, out)
		}
		if want != "" && (strings.Count(out, "\n[progress is not shown: LOCKSTEP_PROGRESS_FILE: ") != 1 || !strings.Contains(out, want) || len(r.all()) > 0) {
			t.Errorf("%s: output %q, reported %v, want %q", shell, out, r.all(), want)
		}
		if want == "" && out != "said\n" {
			t.Errorf("%s: output %q", shell, out)
		}
	}
	_, out, err := report(t, `echo one > $LOCKSTEP_PROGRESS_FILE; sleep 1.2; echo two > $LOCKSTEP_PROGRESS_FILE; sleep 1.2`)
	if err != nil || strings.Count(out, "progress is not shown") != 1 || !strings.Contains(out, `"one"`) {
		t.Errorf("two wrong lines: %v, output %q", err, out)
	}
}

// The file is the result, whatever the exit code. What is none is said, and changes nothing.
func TestACommandHasAResult(t *testing.T) {
	t.Parallel()
	largest := `printf '"' > $F; head -c 65534 /dev/zero | tr '\0' x >> $F; printf '"' >> $F`
	for _, c := range []struct {
		shell, want, says string
		code              int
	}{
		{`echo '{"sent": 3}' > $F`, `{"sent":3}`, "", 0},
		{`echo '"why"' > $F; exit 3`, `"why"`, "", 3},
		{largest, `"` + strings.Repeat("x", 65534) + `"`, "", 0},
		{largest + `; printf ' ' >> $F`, "", "65537 bytes, at most 65536 are allowed", 0},
		{`echo '{"sent":' > $F`, "", "not valid JSON", 0},
		{`echo '{"sent":' > $F; exit 4`, "", "not valid JSON", 4},
		{`: > $F`, "", "", 0},
		{`:`, "", "", 0},
		{`mkdir $F`, "", "it is no regular file", 0},
		{`mkfifo $F`, "", "it is no regular file", 0},
		{`echo 1 > "$(dirname $F)/x"; ln -s x $F`, "", "it is a link, which is not followed", 0},
		{`ln -s /etc/hostname $F`, "", "it is a link, which is not followed", 0},
		{`rm -rf "$(dirname $F)"`, "", "", 0},
	} {
		r, out, err := report(t, "F=$LOCKSTEP_RESULT_FILE; "+c.shell)
		code := 0
		if exit, is := err.(*jobs.ExitError); is { //nolint:errorlint // it is returned as it is
			code, err = exit.Code, nil
		}
		if err != nil || code != c.code || r.result != c.want {
			t.Errorf("%s: exit code %d, %v, result %.100q", c.shell, code, err, r.result)
		}
		if said := "\n[the task has no result: LOCKSTEP_RESULT_FILE: "; c.says == "" && out != "" || c.says != "" && (!strings.HasPrefix(out, said) || !strings.Contains(out, c.says)) {
			t.Errorf("%s: output %q", c.shell, out)
		}
	}
}

// The folder of an attempt belongs to that attempt alone and is empty, and is gone afterwards with all that is in it; what links in it are of, stays.
func TestTheFolderOfAnAttempt(t *testing.T) {
	t.Parallel()
	kept := filepath.Join(t.TempDir(), "kept")
	if err := os.WriteFile(kept, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, out, err := report(t, `cd "$(dirname $LOCKSTEP_RESULT_FILE)" && pwd && ls -A && ls -ldn . .. && mkdir -p deep/er && chmod 500 deep && ln -s `+filepath.Dir(kept)+` link
		[ "$(dirname $LOCKSTEP_PROGRESS_FILE)" = "$PWD" ]`)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if err != nil || len(lines) != 3 || !strings.HasPrefix(lines[1], "drwx------") || !strings.HasPrefix(lines[2], "drwx------") {
		t.Fatalf("%v, output %q", err, out)
	}
	if _, err := os.Lstat(lines[0]); !os.IsNotExist(err) {
		t.Errorf("the folder afterwards: %v", err)
	}
	if _, err := os.Stat(kept); err != nil {
		t.Error(err)
	}
	r, out, err := report(t, `sleep 0.1; echo $(dirname $LOCKSTEP_RESULT_FILE) > /dev/stdout`)
	if err != nil || strings.TrimSpace(out) == lines[0] || r.result != "" {
		t.Errorf("the next attempt: %v, output %q", err, out)
	}
	if out, err := run(t, exechandler.Command{Shell: `echo "$LOCKSTEP_RESULT_FILE$LOCKSTEP_PROGRESS_FILE"`}, ""); err != nil || out != "\n" {
		t.Errorf("without a reporter: %q, %v", out, err)
	}
}

// The folders of a process that was killed are removed by the next one, and those of one that lives are not; nor is what only looks like them.
func TestFoldersOfAKilledProcess(t *testing.T) {
	t.Parallel()
	temp := t.TempDir()
	hold := func(shell string) (folder string, p *exec.Cmd) {
		t.Helper()
		p = exec.CommandContext(t.Context(), os.Args[0])
		p.Env = append(os.Environ(), reporting+"="+shell, "TMPDIR="+temp)
		stdout, err := p.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		buffer := make([]byte, 4096)
		n, err := stdout.Read(buffer)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(buffer[:n])), p
	}
	const waits = `dirname $LOCKSTEP_RESULT_FILE; sleep 60`
	killed, p := hold(waits)
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.Wait()
	lives, other := hold(waits)
	defer func() { _ = other.Process.Kill(); _ = other.Wait() }()
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	for _, err := range []error{os.Mkdir(elsewhere, 0o700), os.WriteFile(filepath.Join(elsewhere, "file"), nil, 0o600), os.Symlink(elsewhere, filepath.Join(temp, "lockstep-attempts-link")), os.WriteFile(filepath.Join(temp, "lockstep-attempts-file"), nil, 0o600)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(killed); !os.IsNotExist(err) {
		t.Errorf("the second process has left the folder of the first: %v", err)
	}
	third, p := hold(`dirname $LOCKSTEP_RESULT_FILE`)
	if err := p.Wait(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(lives); err != nil {
		t.Errorf("the folder of a process that lives: %v", err)
	}
	for _, stays := range []string{filepath.Join(elsewhere, "file"), filepath.Join(temp, "lockstep-attempts-link"), filepath.Join(temp, "lockstep-attempts-file")} {
		if _, err := os.Lstat(stays); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(filepath.Dir(third)); !os.IsNotExist(err) {
		t.Errorf("a process that has ended has left its folder: %v", err)
	}
}

// reporting in the environment makes this test binary run a line of the shell whose output it prints.
const reporting = "LOCKSTEP_TEST_REPORTING"

func reportAlone(shell string) (code int) {
	h, err := exechandler.New(exechandler.Command{Shell: shell, Environ: os.Environ()})
	if err == nil {
		err = h.Run(context.Background(), jobs.Task{ID: "id", Reporter: &told{}}, os.Stdout)
	}
	if err != nil {
		return 1
	}
	return 0
}
