//go:build unix

package cluster

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/test/program"
)

// whyJob is what the command says of a due time, asked of a replica; the zero time is the next one.
func (r *replica) whyJob(t *testing.T, job string, at time.Time) wire.WhyJob {
	t.Helper()
	args := []string{"why", job}
	if !at.IsZero() {
		args = append(args, at.Format(time.RFC3339Nano))
	}
	return ask[wire.WhyJob](t, r, args...)
}

// ask runs a command, and reads its JSON.
func ask[T any](t *testing.T, r *replica, args ...string) (v T) {
	t.Helper()
	cmd := exec.Command(program.Build(t, scheduler), append(args, "-o", "json")...)
	cmd.Env = append(os.Environ(), "LOCKSTEP_SERVER="+r.url)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v, %s", args, err, out)
	}
	if err := json.Unmarshal(out, &v); err != nil {
		t.Fatalf("%v: %v in %s", args, err, out)
	}
	return v
}

// dueTime waits for a due time of a job that has become something, and returns the latest.
func (r *replica) dueTime(t *testing.T, job, what string, is func(g jobs.Trigger) bool) (found jobs.Trigger) {
	t.Helper()
	program.Within(t, 40*time.Second, job+" has a due time that is "+what, func() bool {
		for _, g := range ask[[]jobs.Trigger](t, r, "triggers", "list", "--job", job) {
			if is(g) {
				found = g
				return true
			}
		}
		return false
	})
	return found
}

func skippedAs(code string) func(g jobs.Trigger) bool {
	return func(g jobs.Trigger) bool { return string(g.ReasonCode) == code }
}

// wantWhy compares the codes of a due time, and looks for words in the sentences.
func wantWhy(t *testing.T, y wire.WhyJob, codes string, says ...string) {
	t.Helper()
	var got, said []string
	for _, c := range y.Causes {
		got, said = append(got, string(c.Code)), append(said, c.Message)
	}
	if all := strings.Join(got, " "); all != codes {
		t.Errorf("%s of %v: %s, want %s: %q", y.Job, y.At, all, codes, said)
	}
	for _, words := range says {
		if all := y.Summary + "\n" + strings.Join(said, "\n"); !strings.Contains(all, words) {
			t.Errorf("%s of %v does not say %q: %s", y.Job, y.At, words, all)
		}
	}
}

// The command says of due times why they did not run: the slot was taken, the job suspended, no replica there, its replica lost, a lock held; and under
// which definition they were decided.
func TestWhyOfDueTimes(t *testing.T) {
	t.Parallel()
	for _, c := range cells[:2] {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			dialect, dsn, lock := c.open(t, dir)
			config := filepath.Join(dir, "lockstep.yaml")
			write := func(timeout string) {
				t.Helper()
				text := fmt.Sprintf(`version: 1
replica: {session_ttl: 3s, drain_timeout: 1s}
store: {driver: %s, dsn: %q}
lock: %s
jobs:
  slot: {schedule: "*/2 * * * * *", shell: "while [ -d %[4]s ]; do sleep 0.05; done"}
  off: {schedule: "* * * * * *", command: ["true"], timeout: %[5]s, env: {SECRET: hidden}}
  missed: {schedule: "* * * * * *", command: ["true"], catch_up: {policy: none, grace: 1s}}
  locked: {schedule: "*/2 * * * * *", command: ["true"], locks: [orders-db]}
  rare: {schedule: "0 0 29 2 *", command: ["true"], runs_on: {zone: b}}
`, dialect, dsn, lock, dir, timeout)
				if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			write("1h")
			r := startReplica(t, config, "r1")

			taken := r.dueTime(t, "slot", "skipped", skippedAs("slot_taken"))
			first := r.dueTime(t, "slot", "running", func(g jobs.Trigger) bool { return g.Outcome == "" && !g.StartedAt.IsZero() })
			y := r.whyJob(t, "slot", taken.At)
			wantWhy(t, y, "slot_taken", "was skipped: the run of "+first.At.Format(time.RFC3339)+" (task "+first.TaskID+") has been running on replica r1 since")
			if y.Causes[0].Tasks[0].ID != first.TaskID || y.Causes[0].Tasks[0].State != jobs.StateRunning || y.Trigger.Config == 0 || y.Definition == nil || y.Definition.Hash != taken.Definition {
				t.Errorf("%+v, %+v", y, y.Trigger)
			}
			wantWhy(t, r.whyJob(t, "slot", first.At), "running", "runs as task "+first.TaskID, "attempt 1 of 1 runs on r1")
			wantWhy(t, r.whyJob(t, "slot", first.At.Add(time.Second)), "not_a_due_time", "is no due time of the job; the nearest are")
			wantWhy(t, r.whyJob(t, "rare", time.Time{}), "no_replica due", "no live replica has the labels that job rare runs on (zone=b)", "02-29 00:00:00 UTC")
			wantWhy(t, r.whyJob(t, "rare", time.Now().AddDate(-9, 0, 0)), "before_job", "from when on the job is known")

			r.post(t, "/api/v1/jobs/off/suspend")
			off := r.dueTime(t, "off", "skipped", skippedAs("suspended"))
			wantWhy(t, r.whyJob(t, "off", off.At), "suspended suspended", "was skipped: suspended", "it was suspended by api:")

			cmd := exec.Command(program.Build(t, scheduler), "locks", "exec", "-c", config, "--name", "by-hand", "--wait", "30s", "orders-db", "--", "sh", "-c", "echo has it; while [ ! -e "+dir+"/end ]; do sleep 0.05; done")
			cmd.Dir = dir
			holder := program.Start(t, cmd)
			program.Within(t, 20*time.Second, "another process holds the lock", func() bool { return strings.Contains(holder.Log(), "has it") })
			open := r.dueTime(t, "locked", "waiting", func(g jobs.Trigger) bool { return g.Outcome == "" && g.StartedAt.IsZero() })
			program.Within(t, 20*time.Second, "its task waits for the lock", func() bool { return r.whyJob(t, "locked", open.At).Causes[0].Code == "waits_for_lock" })
			wantWhy(t, r.whyJob(t, "locked", open.At), "waits_for_lock", "waits as task "+open.TaskID+": it waits for lock orders-db (held exclusively by", "by-hand")

			r.Kill(t)
			killed := time.Now()
			write("2h")
			time.Sleep(14 * time.Second) // the outage itself: what is due meanwhile is missed
			r = startReplica(t, config, "r1")
			gone := r.dueTime(t, "missed", "missed", skippedAs("catch_up_none"))
			if gone.Until.Sub(gone.At) < 8*time.Second || gone.At.Before(killed.Add(-3*time.Second)) {
				t.Errorf("missed: %+v", gone)
			}
			wantWhy(t, r.whyJob(t, "missed", gone.At), "catch_up_none outage decided_late", "was missed: catch-up policy none; its row is for ", "no replica decided anything from", "r1, which decided it, joined at")
			lost := r.dueTime(t, "slot", "lost", func(g jobs.Trigger) bool { return g.Outcome == jobs.Lost })
			wantWhy(t, r.whyJob(t, "slot", lost.At), "replica_died", "was lost as task "+lost.TaskID+" at ")
			if err := os.WriteFile(filepath.Join(dir, "end"), nil, 0o600); err != nil {
				t.Fatal(err)
			}

			now := r.dueTime(t, "off", "decided under the new definition", func(g jobs.Trigger) bool { return g.Definition != off.Definition })
			history := ask[[]wire.Definition](t, r, "jobs", "history", "off")
			if len(history) != 2 || history[0].Hash != now.Definition || history[1].Hash != off.Definition || history[1].Until != history[0].Since || history[0].Config <= history[1].Config || now.Config < history[0].Config {
				t.Errorf("%+v, of %+v and %+v", history, off, now)
			}
			var diff struct{ Changes []wire.Change }
			if diff = ask[struct{ Changes []wire.Change }](t, r, "jobs", "diff", "off", off.Definition[:6]); len(diff.Changes) != 1 || diff.Changes[0].Field != "timeout" || string(diff.Changes[0].From) != `"1h0m0s"` || string(diff.Changes[0].To) != `"2h0m0s"` {
				t.Errorf("%+v", diff)
			}
			if text := string(history[0].Definition); strings.Contains(text, "hidden") || !strings.Contains(text, "SECRET=…") {
				t.Error(text)
			}
			if y := r.whyJob(t, "off", off.At); y.Definition == nil || y.Definition.Hash != off.Definition {
				t.Errorf("%+v", y)
			}
		})
	}
}
