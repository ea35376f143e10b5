package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

var workerCases = []Case{
	{"Workers/Session", workerSession},
	{"Workers/Many", manyWorkers},
	{"Workers/NoReplica", workerIsNoReplica},
	{"Workers/Held", heldByWorker},
	{"Workers/HeldInPages", heldInPages},
	{"Workers/TimedOut", timedOutAtWorkers},
	{"Workers/EndedTogether", endedTogether},
	{"Workers/EndedByTwo", endedByTwo},
	{"Workers/Reaped", workerReaped},
	{"Workers/JobReaped", workerOfJobReaped},
	{"Workers/Unrunnable", waitForWorkers},
}

// worker adds the session of a worker.
func (s *scene) worker(id, owner, pool string, kinds ...string) string {
	s.t.Helper()
	session, err := s.Store.Join(s.ctx(), ledger.Member{Replica: id, Pool: pool, Kinds: kinds, Owner: owner, TTL: 10 * time.Second})
	must(s.t, err)
	return session
}

// claimFor claims for a session whose attempts time out so long after now.
func (s *scene) claimFor(session, as, pool string, limit int, timeout time.Duration) []jobs.Task {
	s.t.Helper()
	c := s.claiming(pool, limit)
	c.Session, c.Replica = session, as
	c.Admit = func(now time.Time, _ ledger.Candidate) (time.Time, bool) { return now.Add(timeout), true }
	got, err := tasksOf(s.Store.Claim(s.ctx(), c))
	must(s.t, err)
	return got.Tasks
}

// Every heartbeat changes the beat, brings the time, and says what the session was opened with; to its owner alone. It does not revive.
func workerSession(t *testing.T, b *Bench) {
	s := newScene(t, b)
	session := s.worker("mailer-1", "ci", "work", "", "mail")
	for n := int64(1); n <= 2; n++ {
		before := s.DB.Int(t, "SELECT seen_at FROM {sessions} WHERE id=?", session)
		got, now, err := s.Store.BeatWorker(s.ctx(), session, "ci")
		must(t, err)
		if got.Session != session || got.Replica != "mailer-1" || got.Pool != "work" || !slices.Equal(got.Kinds, []string{"", "mail"}) || got.Owner != "ci" ||
			got.TTL != 10*time.Second || got.Beat != n || got.Dead || now.UnixMicro() < before || got.SeenAt.UnixMicro() != now.UnixMicro() {
			t.Errorf("heartbeat %d: %+v at %v", n, got, now)
		}
	}
	for _, other := range []struct{ session, owner string }{{session, "other"}, {session, ""}, {newID(), "ci"}, {s.session, ""}} {
		if _, _, err := s.Store.BeatWorker(s.ctx(), other.session, other.owner); !errors.Is(err, jobs.ErrNotFound) {
			t.Errorf("the session %s of %q: %v", other.session, other.owner, err)
		}
	}
	s.wantInt(2, "SELECT beat FROM {sessions} WHERE id=?", session)
	s.wantInt(0, "SELECT beat FROM {sessions} WHERE id=?", s.session)
	if expired, err := s.Store.Expire(s.ctx(), session, 1); err != nil || expired {
		t.Errorf("expired although it has beaten since: %t, %v", expired, err)
	}
	if expired, err := s.Store.Expire(s.ctx(), session, 2); err != nil || !expired {
		t.Errorf("expired: %t, %v", expired, err)
	}
	if got, _, err := s.Store.BeatWorker(s.ctx(), session, "ci"); err != nil || !got.Dead {
		t.Errorf("after its end: %+v, %v", got, err)
	}
	s.wantInt(2, "SELECT beat FROM {sessions} WHERE id=?", session)
	c := s.claiming("work", 1)
	c.Session = session
	if _, err := s.Store.Claim(s.ctx(), c); !errors.Is(err, ledger.ErrSessionDead) {
		t.Errorf("it claims after its end: %v", err)
	}
}

// So many sessions of workers with one owner live at most. Those of others, and those that have ended, do not count.
func manyWorkers(t *testing.T, b *Bench) {
	s := newScene(t, b)
	var rows []string
	var args []any
	for i := range ledger.MostWorkers {
		owner, dead, live := "ci", 0, any(1)
		switch i {
		case 0:
			owner = "other"
		case 1:
			dead, live = 1, nil
		}
		rows = append(rows, "(?, ?, ?, ?, 0, '', '', '', 0, 0, '', '', 0, '{}', 'work', ?, 0, 0)")
		args = append(args, newID(), fmt.Sprint("w-", i), live, dead, owner)
	}
	s.DB.Exec(t, `INSERT INTO {sessions} (id, replica, live, dead, config, lock_service, host, boot_id, pid, pid_start, version, address, workers, labels, pool, owner, joined_at, seen_at)
		VALUES `+strings.Join(rows, ", "), args...)
	s.worker("ci-1", "ci", "work", "")
	s.worker("ci-2", "ci", "work", "")
	join := func(id, owner, pool string) error {
		_, err := s.Store.Join(s.ctx(), ledger.Member{Replica: id, Pool: pool, Owner: owner, LockService: "test"})
		return err
	}
	if err := join("ci-3", "ci", "again"); !errors.Is(err, ledger.ErrManyWorkers) {
		t.Errorf("one more: %v", err)
	}
	must(t, join("other-1", "other", "work"))
	must(t, join("two", "ci", "")) // a replica
	s.DB.Exec(t, "UPDATE {sessions} SET dead=1, live=NULL WHERE replica='ci-1'")
	must(t, join("ci-3", "ci", "again"))
}

// A worker has no lock service that replicas are compared with, governs nothing, and is among the peers as a worker.
func workerIsNoReplica(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.worker("mailer-1", "", "work", "")
	s.worker("mailer-2", "", "work", "")
	second := s.second("two")
	if got, err := s.Store.Assert(s.ctx(), s.session, definitions()); err != nil || !got.Governs {
		t.Errorf("beside workers the replica governs: %+v, %v", got, err)
	}
	peers, err := second.Store.Peers(s.ctx())
	must(t, err)
	replicas, workers := ledger.Replicas(peers)
	if len(peers) != 4 || len(replicas) != 2 || replicas[0].Replica != "one" || replicas[1].Replica != "two" || workers != 2 {
		t.Errorf("%d replicas and %d workers among %+v", len(replicas), workers, peers)
	}
	if st, is := sqlOf(b.Store); is {
		api := st.Sides().API
		seen, err := api.Replicas(s.ctx())
		must(t, err)
		others, err := api.Workers(s.ctx())
		must(t, err)
		if len(seen) != 2 || len(others) != 2 || others[0].Replica != "mailer-1" || others[1].Replica != "mailer-2" {
			t.Errorf("seen are the replicas %+v and the workers %+v", seen, others)
		}
	}
}

// A worker is listed with the tasks that it runs, also a dead one until they are reaped.
func workersWithTasks(t *testing.T, b *Bench) {
	s := newScene(t, b)
	busy, idle := s.worker("mailer-1", "", "work", ""), s.worker("mailer-2", "", "work", "")
	s.enqueue("work", 6)
	running := s.claimFor(busy, "mailer-1", "work", 2, time.Hour)
	s.claim("work", 3)
	want := func(when string, want ...string) {
		t.Helper()
		workers, err := s.SQL().Sides().API.Workers(s.ctx())
		must(t, err)
		var got []string
		for _, w := range workers {
			got = append(got, fmt.Sprint(w.Worker().ID, " ", w.Worker().State, " ", w.Worker().Running, " ", w.Worker().TaskID))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", when, got, want)
		}
	}
	want("two run", "mailer-1 live 2 "+running[0].ID, "mailer-2 live 0 ")
	for _, session := range []string{busy, idle} {
		must(t, s.Store.Leave(s.ctx(), session))
	}
	want("both are gone", "mailer-1 dead 2 "+running[0].ID)
	s.reap()
	want("their tasks are reaped")
}

// A worker's tasks are known with all that its attempt needs, and those of others are not.
func heldByWorker(t *testing.T, b *Bench) {
	s := newScene(t, b)
	session, other := s.worker("mailer-1", "", "work", ""), s.worker("mailer-2", "", "work", "")
	ids := s.enqueue("work", 4)
	s.claimFor(session, "mailer-1", "work", 2, time.Hour)
	s.claimFor(other, "mailer-2", "work", 1, time.Hour)
	_, err := s.Store.Cancel(s.ctx(), ids[1], "someone")
	must(t, err)
	held, err := s.Store.Held(s.ctx(), session, "", 9)
	must(t, err)
	if len(held) != 2 || held[0].ID != ids[0] || held[1].ID != ids[1] || held[0].Session != session || held[0].Token != 1 || held[0].Replica != "mailer-1" ||
		len(held[0].Payload) > 0 || held[0].Attempt != 1 || held[0].MaxAttempts != 3 || held[0].Cancel != "" || held[1].Cancel == "" ||
		held[0].Until.UnixMicro() != held[0].StartedAt.Add(time.Hour).UnixMicro() {
		t.Errorf("held are %+v", held)
	}
	for id, want := range map[string]int{ids[1]: 1, ids[2]: 0, ids[3]: 0, newID(): 0} {
		if one, runs, err := s.Store.Holds(s.ctx(), session, id); err != nil || runs != (want == 1) || runs && (one.ID != id || len(one.Payload) > 0 || one.Cancel == "") {
			t.Errorf("of %s held is %+v, %t, %v", id, one, runs, err)
		}
	}
	if one, runs, err := s.Store.Holds(s.ctx(), "", ids[2]); err != nil || !runs || one.Session != other || len(one.Payload) > 0 {
		t.Errorf("of any session: %+v, %t, %v", one, runs, err)
	}
	whole, err := s.Store.HeldWhole(s.ctx(), session, []string{ids[3], ids[2], ids[1], ids[0], newID()})
	if err != nil || len(whole) != 2 || whole[0].ID != ids[0] || whole[1].ID != ids[1] || string(whole[0].Payload) != `"`+ids[0]+`"` || whole[1].Cancel == "" || whole[0].Session != session {
		t.Errorf("with payloads: %+v, %v", whole, err)
	}
	if none, err := s.Store.HeldWhole(s.ctx(), session, nil); err != nil || len(none) != 0 {
		t.Errorf("of none: %+v, %v", none, err)
	}
}

// What a session holds comes in pages, by id, and nothing of it twice.
func heldInPages(t *testing.T, b *Bench) {
	s := newScene(t, b)
	session := s.worker("mailer-1", "", "work", "")
	ids := s.enqueue("work", 7)
	s.claimFor(session, "mailer-1", "work", 7, time.Hour)
	var found []string
	for after, pages := "", 0; pages < 5; pages++ {
		held, err := s.Store.Held(s.ctx(), session, after, 3)
		must(t, err)
		if len(held) > 3 {
			t.Errorf("a page of %d", len(held))
		}
		for _, h := range held {
			found, after = append(found, h.ID), h.ID
		}
	}
	if diff := cmp.Diff(ids, found); diff != "" {
		t.Error(diff)
	}
}

// What a dead worker had runs again at once, although its attempt has not timed out; the worker's result is refused then.
func workerReaped(t *testing.T, b *Bench) {
	s := newScene(t, b)
	session := s.worker("mailer-1", "", "again", "")
	id := s.enqueue("again", 1)[0]
	task := s.claimFor(session, "mailer-1", "again", 1, time.Hour)[0]
	if reaped := s.reap(); len(reaped) != 0 {
		t.Fatalf("reaped tasks of a living worker: %+v", reaped)
	}
	must(t, s.Store.Leave(s.ctx(), session))
	if reaped := s.reap(); len(reaped) != 1 || reaped[0].Replica != "mailer-1" || reaped[0].Task.State != jobs.StatePending || reaped[0].Task.Lost != 1 {
		t.Fatalf("reaped %+v", reaped)
	}
	s.want("task", s.task(id), "ready attempt 1 token 1 replica -: the session of worker mailer-1 expired while it had the task")
	again := s.claim("again", 1)
	if len(again) != 1 || again[0].Token != 2 {
		t.Fatalf("claimed again: %+v", again)
	}
	done, err := s.Store.Finish(s.ctx(), session, []ledger.Result{{TaskID: id, Token: task.Token, Verdict: ledger.Ended, State: jobs.StateSucceeded}})
	if err != nil || done[0].Finish != ledger.Fenced {
		t.Errorf("the dead worker's result: %+v, %v", done, err)
	}
	s.want("task", s.task(id), "running attempt 2 token 2 replica one: -")
}

// A job's run that a worker lost ends, and the job is free at once: no attempt of it may be running.
func workerOfJobReaped(t *testing.T, b *Bench) {
	s := newScene(t, b)
	session := s.worker("runner-1", "", "default", "")
	_, err := s.decide(run("a", due(1), false))
	must(t, err)
	if got := s.claimFor(session, "runner-1", "default", 1, time.Hour); len(got) != 1 || got[0].Job != "a" {
		t.Fatalf("claimed %+v", got)
	}
	must(t, s.Store.Leave(s.ctx(), session))
	if reaped := s.reap(); len(reaped) != 1 || reaped[0].Task.State != jobs.StateLost {
		t.Fatalf("reaped %+v", reaped)
	}
	s.wantInt(0, "SELECT busy_until FROM {jobs} WHERE name='a'")
	s.wantInt(0, "SELECT may_run_until FROM {done}")
	s.want("trigger", s.trigger("a", due(1), 0), "lost lost: the session of worker runner-1 expired while it had the task")
}

// Kinds that workers run are enqueued whether one lives or not, and what is due waits for nobody unless a live worker takes its kind.
func waitForWorkers(t *testing.T, b *Bench) {
	s := newScene(t, b)
	d := withKinds("fax", "mail", "pdf")
	for i := range d.Pools {
		if d.Pools[i].Name == "work" {
			d.Pools[i].Kinds = map[string]string{"fax": "worker:1", "mail": "h", "pdf": "worker:1"}
		}
	}
	s.load(d)
	for _, kind := range []string{"fax", "mail", "pdf", "pdf"} {
		_, err := s.Store.Enqueue(s.ctx(), jobs.NewTask{Pool: "work", Kind: kind})
		must(t, err)
	}
	if _, err := s.Store.Enqueue(s.ctx(), jobs.NewTask{Pool: "work", Kind: "ftp"}); !errors.Is(err, jobs.ErrNoHandler) {
		t.Errorf("a kind that nobody has: %v", err)
	}
	check := func(when string, kinds []string, want map[string]int) {
		t.Helper()
		all, err := b.Store.Pools(s.ctx())
		must(t, err)
		for _, p := range all {
			if p.Name != "work" {
				if len(p.ByWorkers) > 0 {
					t.Errorf("%s: in pool %s workers run %q", when, p.Name, p.ByWorkers)
				}
				continue
			}
			got := map[string]int{}
			for _, u := range p.Unrunnable {
				got[u.Kind] = u.Tasks
			}
			if diff := cmp.Diff(want, got) + cmp.Diff(kinds, p.Kinds) + cmp.Diff([]string{"fax", "pdf"}, p.ByWorkers); diff != "" {
				t.Errorf("%s: %s", when, diff)
			}
		}
	}
	check("without workers", []string{"mail"}, map[string]int{"fax": 1, "pdf": 2})
	s.worker("other-1", "", "default", "fax", "pdf")
	check("with one of another pool", []string{"mail"}, map[string]int{"fax": 1, "pdf": 2})
	session := s.worker("printer-1", "", "work", "pdf", "")
	check("with one", []string{"mail", "pdf"}, map[string]int{"fax": 1})
	must(t, s.Store.Leave(s.ctx(), session))
	check("after its end", []string{"mail"}, map[string]int{"fax": 1, "pdf": 2})
}
