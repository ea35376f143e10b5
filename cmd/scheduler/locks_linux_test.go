package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/test/await"
	programs "github.com/lockstep-scheduler/lockstep/test/program"
)

// replica starts a replica.
func (s *shell) replica(t *testing.T) *programs.Process {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), s.binary, "serve", "--listen", "127.0.0.1:0")
	cmd.Dir = s.dir
	p := programs.Start(t, cmd)
	p.URL(t) // it is ready
	return p
}

// serve starts a replica, and returns the address of its API.
func (s *shell) serve(t *testing.T) string {
	t.Helper()
	return s.replica(t).URL(t)
}

// listed are the locks of users that a replica lists.
func (s *shell) listed(t *testing.T, url string) []wire.Lock {
	t.Helper()
	code, out, errs := s.scheduler(t, "locks", "list", "user/", "-o", "json", "--server", url)
	if code != exitFine {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	return decodeJSON[[]wire.Lock](t, out)
}

// A replica lists who holds locks and who waits for them, and takes them away: only from the holder with that token, and with
// a row in the audit. The next one gets the lock, and the command of the holder is ended.
func TestLocksListAndRelease(t *testing.T) {
	t.Parallel()
	shells(t, func(t *testing.T, s *shell) {
		url := s.serve(t)
		holder := s.start(t, "orders", "--", "sh", "-c", tree)
		wrote(t, holder, "ready")
		pids := s.pids(t)
		next := s.start(t, "orders", "--wait", "1m", "--name", "the next", "--", "sh", "-c", hold, "end")
		host, _ := os.Hostname()
		owner := func(p *programs.Process) string { return fmt.Sprintf("%s/%d", host, p.Cmd.Process.Pid) }
		var all []wire.Lock
		await.Until(t, "both are listed", func() bool { all = s.listed(t, url); return len(all) == 2 })
		if w := all[1]; w.Key != "user/orders" || w.Place != 1 || w.Token != 0 || w.Owner != owner(next) || w.Meta != "the next" {
			t.Errorf("the one that waits: %+v", w)
		}
		if code, out, errs := s.scheduler(t, "locks", "list", "--server", url); code != 0 ||
			!strings.HasPrefix(out, "LOCK          PLACE   OWNER") || strings.Count(out, "user/orders") != 2 || !strings.Contains(out, " the next\n") || strings.Contains(out, "sys/") {
			t.Errorf("exit code %d\n%s%s", code, out, errs)
		}
		if _, out, errs := s.scheduler(t, "locks", "list", "orders", "--server", url); strings.Count(out, "user/orders") != 2 {
			t.Errorf("the list of a key: %s%s", out, errs)
		}
		if _, out, errs := s.scheduler(t, "locks", "list", "--all", "--server", url); s.locks.Caps().Volatile != strings.Contains(out, "sys/stripe/") {
			t.Errorf("all locks: %s%s", out, errs)
		}
		held := all[0]
		left, _ := time.ParseDuration(held.Remaining)
		most := 10 * time.Second // lock.ttl by default
		if s.locks.Caps().Volatile {
			most = execTTL
		}
		if held.Key != "user/orders" || held.Place != 0 || held.Owner != owner(holder) || !strings.HasPrefix(held.Meta, "sh -c trap") || held.Mode != "exclusive" ||
			time.Since(held.Since).Abs() > time.Minute || left <= 0 || left > most {
			t.Errorf("the holder: %+v", held)
		}
		release := func(key string, token int64) (int, string) {
			code, out, errs := s.scheduler(t, "locks", "release", key, "--token", fmt.Sprint(token), "--server", url)
			return code, out + errs
		}
		if code, said := release("orders", held.Token+1); code != exitFailed || !strings.Contains(said, fmt.Sprintf("nobody holds \"orders\" under the token %d now", held.Token+1)) || gone(pids) {
			t.Errorf("with another token: exit code %d, %s", code, said)
		}
		if code, said := release("user/orders", held.Token); code != exitFine || !strings.HasPrefix(said, "user/orders is released") {
			t.Fatalf("exit code %d, %s", code, said)
		}
		if code := holder.Exit(t, 20*time.Second); code != exitLost || !gone(pids) {
			t.Errorf("the holder: exit code %d, want %d; all gone: %v", code, exitLost, gone(pids))
		}
		wrote(t, next, "ready")
		if code, said := release("orders", held.Token); code != exitFailed {
			t.Errorf("the token of the holder before: exit code %d, %s", code, said)
		}
		_, out, _ := s.scheduler(t, "audit", "list", "-o", "json", "--server", url)
		rows := decodeJSON[[]wire.AuditEntry](t, out)
		action := fmt.Sprintf("POST /locks/release?token=%d", held.Token)
		if len(rows) != 3 || rows[1].Action != action || rows[1].Object != "user/orders" || rows[1].Status != 200 || rows[2].Status != 409 {
			t.Errorf("the audit: %+v", rows)
		}
		for _, c := range []struct {
			want string
			args []string
		}{
			{"--token TOKEN is missing", []string{"release", "orders"}},
			{"must be the TOKEN", []string{"release", "orders", "--token", "0"}},
			{"PREFIX is given twice", []string{"list", "user/", "--prefix", "sys/"}},
			{"--all has no PREFIX: give one of them", []string{"list", "--all", "orders"}},
			{"-c has no effect: a replica is asked, at --server", []string{"list", "-c", "lockstep.yaml"}},
			{`PREFIX "a b": no key begins so`, []string{"list", "a b"}},
			{`key "a b": must be 1 to 200 printable ASCII characters`, []string{"release", "a b", "--token", "1"}},
			{"KEY is missing; write 'scheduler locks release KEY --token TOKEN'", []string{"release"}},
			{"-c has no effect: a replica is asked, at --server", []string{"release", "orders", "--token", "1", "-c", "lockstep.yaml"}},
		} {
			if code, out, errs := s.scheduler(t, append([]string{"locks", "--server", url}, c.args...)...); code != exitUsage || !strings.Contains(errs, c.want) {
				t.Errorf("%q: exit code %d, %s%s", c.args, code, out, errs)
			}
		}
	})
}
