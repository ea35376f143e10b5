package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/await"
	programs "github.com/lockstep-scheduler/lockstep/test/program"
)

// Commands that hold the same key never overlap: the folder that each makes is not there.
func TestExecExcludes(t *testing.T) {
	t.Parallel()
	services(t, func(t *testing.T, s *shell) {
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				for range 8 {
					if code, out, errs := s.run(t, "orders", "--wait", "1m", "--", "sh", "-c", "mkdir alone && sleep 0.02 && rmdir alone"); code != 0 {
						t.Errorf("exit code %d: %s%s", code, out, errs)
					}
				}
			})
		}
		all.Wait()
	})
}

// What the command gets, and what its caller gets.
func TestExecIsTransparent(t *testing.T) {
	t.Parallel()
	shells(t, func(t *testing.T, s *shell) {
		script := `echo "$LOCKSTEP_FENCING_TOKEN $LOCKSTEP_LOCK"; cat; echo wrong >&2; exit 7`
		var last int64
		for range 2 {
			code, out, errs := s.run(t, "orders", "--", "sh", "-c", script)
			lines := strings.Split(out, "\n")
			token, key, _ := strings.Cut(lines[0], " ")
			n, err := strconv.ParseInt(token, 10, 64)
			if code != 7 || err != nil || n <= last || key != "user/orders" || lines[1] != "hello" || errs != "wrong\n" {
				t.Errorf("exit code %d, token %s after %d, key %s, output %q, errors %q", code, token, last, key, out, errs)
			}
			last = n
		}
		if code, _, errs := s.run(t, "orders", "--", "sh", "-c", "kill -9 $$"); code != 128+9 || errs != "" {
			t.Errorf("after a SIGKILL: exit code %d: %s", code, errs)
		}
		for _, c := range []struct {
			code int
			want string
			args []string
		}{
			{127, `command "nosuch" not found in PATH`, []string{"orders", "--", "nosuch"}},
			{126, "cannot start", []string{"orders", "--", "./lockstep.yaml"}},
			{2, "CMD is missing", []string{"orders", "--"}},
			{2, "CMD is missing, behind --", []string{"orders", "echo"}},
			{2, "KEY is missing", []string{}},
			{2, "none.yaml: no such file or directory: name the configuration with -c FILE", []string{"orders", "-c", "none.yaml", "--", "true"}},
			{2, "CMD is empty", []string{"orders", "--", ""}},
			{2, `--name "a\nb": must be`, []string{"orders", "--name", "a\nb", "--", "true"}},
			{2, "did you mean 30s", []string{"orders", "--wait", "30", "--", "true"}},
			{2, "must be 1 to 10000", []string{"orders", "--limit", "0", "--", "true"}},
			{2, "exclude each other", []string{"orders", "--limit", "2", "--shared", "--", "true"}},
			{2, "must be 1 to 200 printable ASCII characters", []string{"a b", "--", "true"}},
			{2, "are the scheduler's", []string{"sys/stripe/1", "--", "true"}},
		} {
			if code, out, errs := s.run(t, c.args...); code != c.code || !strings.Contains(errs, c.want) || out != "" {
				t.Errorf("%q: exit code %d, want %d; it says %s%s, want %q", c.args, code, c.code, out, errs, c.want)
			}
		}
		if _, holders := s.waiting(t, "orders"); len(holders) > 0 {
			t.Errorf("after all have ended, it is held: %+v", holders)
		}
	})
}

// hold is a command that says ready, and ends once a file exists.
const hold = `echo ready; until [ -e "$0" ]; do sleep 0.02; done`

// A busy key: who holds it is said, and listed with its process and its command.
func TestExecBusy(t *testing.T) {
	t.Parallel()
	shells(t, func(t *testing.T, s *shell) {
		holder := s.start(t, "orders", "--", "sh", "-c", hold, "end")
		named := s.start(t, "other", "--name", "nightly", "--", "sh", "-c", hold, "end")
		wrote(t, holder, "ready")
		wrote(t, named, "ready")
		host, _ := os.Hostname()
		who := fmt.Sprintf("%s/%d", host, holder.Cmd.Process.Pid)
		_, holders := s.waiting(t, "orders")
		if len(holders) != 1 || holders[0].Owner != who || holders[0].Meta != "sh -c "+hold+" end" {
			t.Errorf("listed is %+v, want %s", holders, who)
		}
		if _, holders = s.waiting(t, "other"); len(holders) != 1 || holders[0].Meta != "nightly" {
			t.Errorf("listed with a name is %+v", holders)
		}
		code, out, errs := s.run(t, "orders", "--", "echo", "ran")
		if code != exitBusy || out != "" || !strings.Contains(errs, "user/orders is held by "+who+" (sh -c ") || !strings.Contains(errs, " since 20") {
			t.Errorf("one try: exit code %d, %s%s", code, out, errs)
		}
		began := time.Now()
		code, out, errs = s.run(t, "orders", "--wait", "500ms", "--", "echo", "ran")
		if code != exitBusy || out != "" || !strings.Contains(errs, "not its turn within 500ms: user/orders is held by "+who) || time.Since(began) < 500*time.Millisecond {
			t.Errorf("after a wait: exit code %d, %s%s", code, out, errs)
		}
		if err := os.WriteFile(filepath.Join(s.dir, "end"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if code := holder.Exit(t, 10*time.Second); code != 0 {
			t.Errorf("the holder: exit code %d", code)
		}
		if code, out, errs = s.run(t, "orders", "--", "echo", "ran"); code != 0 || out != "ran\n" {
			t.Errorf("a moment later: exit code %d, %s%s", code, out, errs)
		}
	})
}

// Three that wait, each started once the one before is listed, are served in that order.
func TestExecWaitsInTurn(t *testing.T) {
	t.Parallel()
	shells(t, waitsInTurn)
}

func waitsInTurn(t *testing.T, s *shell) {
	holder := s.start(t, "orders", "--", "sh", "-c", hold, "end")
	wrote(t, holder, "ready")
	var all []*programs.Process
	for i := range 3 {
		all = append(all, s.start(t, "orders", "--wait", "forever", "--name", fmt.Sprint("waiter ", i), "--", "sh", "-c", fmt.Sprintf("echo %d >>order; sleep 0.05", i)))
		await.Until(t, "it is listed", func() bool { waiters, _ := s.waiting(t, "orders"); return len(waiters) == i+1 })
	}
	waiters, _ := s.waiting(t, "orders")
	for i, w := range waiters {
		if w.Place != i+1 || w.Meta != fmt.Sprint("waiter ", i) {
			t.Errorf("place %d is %+v", i+1, w)
		}
	}
	if code, _, errs := s.run(t, "orders", "--", "true"); code != exitBusy {
		t.Errorf("a try beside those who wait: exit code %d, %s", code, errs)
	}
	if err := os.WriteFile(filepath.Join(s.dir, "end"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, p := range append(all, holder) {
		if code := p.Exit(t, 20*time.Second); code != 0 {
			t.Errorf("exit code %d", code)
		}
	}
	if order, _ := os.ReadFile(filepath.Join(s.dir, "order")); string(order) != "0\n1\n2\n" {
		t.Errorf("served in the order %q", order)
	}
}

// One that is interrupted while it waits gives its place back: the one behind it does not wait for it.
func TestExecInterruptedWhileItWaits(t *testing.T) {
	t.Parallel()
	shells(t, func(t *testing.T, s *shell) {
		holder := s.start(t, "orders", "--", "sh", "-c", hold, "end")
		wrote(t, holder, "ready")
		for sig, code := range map[syscall.Signal]int{syscall.SIGTERM: 143, syscall.SIGINT: 130} {
			waiter := s.start(t, "orders", "--wait", "1m", "--", "touch", "ran")
			await.Until(t, "it waits", func() bool {
				waiters, _ := s.waiting(t, "orders")
				return len(waiters) == 1
			})
			waiter.Signal(t, sig)
			if got := waiter.Exit(t, 10*time.Second); got != code {
				t.Errorf("%v: exit code %d, want %d", sig, got, code)
			}
			if waiters, _ := s.waiting(t, "orders"); len(waiters) > 0 {
				t.Errorf("%v: its place is still there: %+v", sig, waiters)
			}
		}
		if err := os.WriteFile(filepath.Join(s.dir, "end"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		holder.Exit(t, 10*time.Second)
		if _, err := os.Stat(filepath.Join(s.dir, "ran")); err == nil {
			t.Error("a command ran although its wait was interrupted")
		}
	})
}

// Signals reach the group of the command, which decides what becomes of it; the lock is held meanwhile.
func TestExecPassesSignalsOn(t *testing.T) {
	t.Parallel()
	shells(t, func(t *testing.T, s *shell) {
		p := s.start(t, "orders", "--", "sh", "-c", `sh -c 'trap "" USR1; trap "echo child; exit" TERM; echo born; while :; do sleep 0.05; done' & trap "echo term; until [ -e end ]; do sleep 0.02; done; exit 9" TERM; trap "echo int" INT; trap "echo usr1" USR1; echo ready; while :; do sleep 0.05; done`)
		wrote(t, p, "ready")
		wrote(t, p, "born")
		p.Signal(t, syscall.SIGINT)
		wrote(t, p, "int")
		p.Signal(t, syscall.SIGUSR1)
		wrote(t, p, "usr1")
		p.Signal(t, syscall.SIGTERM)
		wrote(t, p, "term")
		wrote(t, p, "child")
		if code, _, errs := s.run(t, "orders", "--", "true"); code != exitBusy {
			t.Errorf("while it ends: exit code %d, %s", code, errs)
		}
		if err := os.WriteFile(filepath.Join(s.dir, "end"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if code := p.Exit(t, 10*time.Second); code != 9 {
			t.Errorf("exit code %d, want that of the command, 9", code)
		}
		// With exec: dash loses a SIGINT for the sleep that comes while it starts it, and waits for its end.
		q := s.start(t, "orders", "--", "sh", "-c", "echo ready; exec sleep 60")
		wrote(t, q, "ready")
		q.Signal(t, syscall.SIGINT)
		if code := q.Exit(t, 10*time.Second); code != 130 {
			t.Errorf("a command that a signal ended: exit code %d, want 130", code)
		}
		if code, _, errs := s.run(t, "orders", "--", "true"); code != 0 {
			t.Errorf("afterwards: exit code %d, %s", code, errs)
		}
	})
}

// Holders with --shared overlap, and exclude those without it. Holders with a limit are never more than that, and exclude
// those with another one.
func TestExecKinds(t *testing.T) {
	t.Parallel()
	shells(t, kindsExclude)
}

func kindsExclude(t *testing.T, s *shell) {
	var readers []*programs.Process
	for range 3 {
		p := s.start(t, "docs", "--shared", "--", "sh", "-c", hold, "end")
		wrote(t, p, "ready")
		readers = append(readers, p)
	}
	for _, args := range [][]string{{"docs", "--", "true"}, {"docs", "--limit", "3", "--", "true"}} {
		if code, _, errs := s.run(t, args...); code != exitBusy || strings.Count(errs, "sh -c") != 3 {
			t.Errorf("%v beside three readers: exit code %d, %s", args, code, errs)
		}
	}
	if err := os.WriteFile(filepath.Join(s.dir, "end"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, p := range readers {
		p.Exit(t, 10*time.Second)
	}
	var all sync.WaitGroup
	for i := range 6 { // each makes a folder, and counts
		all.Go(func() {
			script := fmt.Sprintf("mkdir at.%d; ls -d at.* | wc -l >>counts; sleep 0.3; ls -d at.* | wc -l >>counts; rmdir at.%d", i, i)
			if code, out, errs := s.run(t, "uplink", "--limit", "2", "--wait", "1m", "--", "sh", "-c", script); code != 0 {
				t.Errorf("exit code %d, %s%s", code, out, errs)
			}
		})
	}
	all.Wait()
	counts, _ := os.ReadFile(filepath.Join(s.dir, "counts"))
	if strings.Trim(string(counts), "12\n") != "" || !strings.Contains(string(counts), "2") {
		t.Errorf("with --limit 2 there were %q", strings.Fields(string(counts)))
	}
}

// A kind that the lock service lacks is wrong usage, and the command is not run.
func TestExecOfAKindThatIsNotThere(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]func(*testing.T) string{"row --shared": onRow, "row --limit": onRow, "quorum --limit": onQuorum} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShell(t, text(t))
			flags := []string{"--shared"}
			if strings.HasSuffix(name, "--limit") {
				flags = []string{"--limit", "3"}
			}
			code, out, errs := s.run(t, slices.Concat([]string{"docs"}, flags, []string{"--", "echo", "ran"})...)
			if code != exitUsage || out != "" || !strings.Contains(errs, flags[0]+": the lock service of the configuration, ") || !strings.Contains(errs, "leave the flag out") {
				t.Errorf("exit code %d: %s%s", code, out, errs)
			}
			if advice := "set lock.mysql.mode: lease"; strings.HasPrefix(name, "row") != strings.Contains(errs, advice) {
				t.Errorf("%q: %s", advice, errs)
			}
		})
	}
}

// Where the namespace would be that of one folder's database, a command is not run: on another machine it would be, too. The warnings
// of a file that concern jobs are not those of a script.
func TestExecNeedsAName(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"lock: {driver: redis, redis: {addrs: [\"127.0.0.1:1\"]}}\n": "the configuration has no name",
		"": "",
	} {
		s := &shell{binary: programs.Build(t, module), dir: t.TempDir()}
		if err := os.WriteFile(filepath.Join(s.dir, "lockstep.yaml"), []byte("version: 1\njobs: {}\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
		code, _, errs := s.run(t, "orders", "--", "true")
		if want == "" && (code != 0 || errs != "") {
			t.Errorf("in the store: exit code %d, %s", code, errs)
		}
		if want != "" && (code != exitUsage || !strings.Contains(errs, want) || !strings.Contains(errs, "write the same name: in the configuration of all")) {
			t.Errorf("%s: exit code %d, %s", text, code, errs)
		}
	}
}
