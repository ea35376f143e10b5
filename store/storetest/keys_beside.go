package storetest

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/limits"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// keyBesideCases are about keys beside kinds that a replica does not know, and beside locks.
var keyBesideCases = []Case{
	{"Keys/Kinds", keyKinds},
	{"Keys/Look", keyLook},
	{"Keys/Payloads", keyPayloads},
	{"Keys/Locks", keyLocks},
	{"Keys/LocksLater", keyLocksLater},
}

// A replica that does not know the kind of the first task that waits for a key runs those behind it.
func keyKinds(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.perKey(jobs.KeyLimits{MaxRunning: 1}, "")
	one := s.newTask(jobs.NewTask{Key: "a"})
	x := s.newTask(jobs.NewTask{Key: "a", Kind: "x", Force: true})
	y := s.newTask(jobs.NewTask{Key: "a", Kind: "y", Force: true})
	s.starts("first", one)
	s.ends(one)
	of := func(kinds ...string) claimed {
		t.Helper()
		c := s.claiming("work", 10)
		share(&c, func(s *ledger.Share) { s.Limited = true })
		c.Scope.Kinds = append([]string{}, kinds...)
		got, err := tasksOf(b.Store.Claim(s.ctx(), c))
		must(t, err)
		return got
	}
	if got := of(); len(got.Tasks) > 0 {
		t.Errorf("a replica without kinds claimed %v", ids(got.Tasks))
	}
	if d := cmp.Diff([]string{y}, ids(of("y", "z").Tasks)); d != "" {
		t.Error(d)
	}
	s.ends(y)
	if d := cmp.Diff([]string{x}, ids(of("x").Tasks)); d != "" {
		t.Error(d)
	}
}

// Tasks that wait for locks count as running for nobody. When they get their locks and their key is full, they wait for it.
func keyLocks(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.perKey(jobs.KeyLimits{MaxRunning: 1}, "")
	k := s.keyed("a", "a")
	c := s.claiming("work", 10)
	share(&c, func(s *ledger.Share) { s.Limited = true })
	c.Locks = func(c ledger.Candidate) ledger.Locking {
		if c.Task.ID == k[0] {
			return busy("user/x", "held by another")
		}
		return ledger.Locking{}
	}
	got, err := tasksOf(b.Store.Claim(s.ctx(), c))
	must(t, err)
	if d := cmp.Diff([]string{k[1]}, ids(got.Tasks)); d != "" || len(got.Waiting) != 1 {
		t.Errorf("%d wait: %s", len(got.Waiting), d)
	}
	c = s.claiming("work", 10)
	share(&c, func(s *ledger.Share) { s.Limited = true })
	c.Waiting = []string{k[0]}
	got, err = tasksOf(b.Store.Claim(s.ctx(), c))
	if must(t, err); len(got.Tasks) > 0 {
		t.Errorf("claimed %v, its key is full", ids(got.Tasks))
	}
	s.wantInt(0, "SELECT COUNT(*) FROM {lock_waits}")
	s.starts("its key is full")
	s.ends(k[1])
	s.starts("its key is free", k[0])
}

// A replica that cannot run some pending task looks for others, and finds those that wait for keys which are free, and none that wait for a key which is not.
func keyLook(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.perKey(jobs.KeyLimits{MaxRunning: 1}, "")
	k := s.keyed("a", "a")
	s.starts("first", k[0])
	s.newTask(jobs.NewTask{Kind: "x", Force: true})
	look := func(when string, kinds []string, want bool) {
		t.Helper()
		seen, err := b.Store.Look(s.ctx(), "work", ledger.Look{Scope: ledger.Scope{Kinds: kinds}, Past: map[int]time.Time{}, Most: 1000})
		if must(t, err); (seen.Work != nil) != want {
			t.Errorf("%s: work of kinds %q: %+v", when, kinds, seen.Work)
		}
	}
	s.DB.Exec(t, "UPDATE {keys} SET look_at=look_at-? WHERE look_at>1", -(30 * time.Second).Microseconds()) // as after some looks: the first comes soon
	look("the key is full", []string{""}, false)                                                            // else a claim would look there, and never behind it
	s.ends(k[0])
	s.ready("the key is free", "work")
	look("the key is free", []string{""}, true)
	look("the key is free", []string{"y"}, false)
	c := s.claiming("work", 10)
	share(&c, func(s *ledger.Share) { s.Limited = true })
	seen, err := b.Store.Look(s.ctx(), "work", ledger.Look{Scope: ledger.Scope{Kinds: []string{""}}, Past: map[int]time.Time{}, Most: 1000})
	must(t, err)
	c.Scope = ledger.Scope{Kinds: []string{""}, Within: seen.Work}
	got, err := tasksOf(b.Store.Claim(s.ctx(), c))
	must(t, err)
	if d := cmp.Diff([]string{k[1]}, ids(got.Tasks)); d != "" {
		t.Error(d)
	}
	look("it runs", []string{""}, false)
}

// A task that has waited for its key, and finds its locks busy, waits for them.
func keyLocksLater(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.perKey(jobs.KeyLimits{MaxRunning: 1}, "")
	k := s.keyed("a", "a")
	s.starts("first", k[0])
	s.starts("its key is full")
	s.ends(k[0])
	c := s.claiming("work", 10)
	share(&c, func(s *ledger.Share) { s.Limited = true })
	c.Locks = func(ledger.Candidate) ledger.Locking { return busy("user/x") }
	got, err := tasksOf(b.Store.Claim(s.ctx(), c))
	if must(t, err); len(got.Waiting) != 1 {
		t.Errorf("%d wait for locks", len(got.Waiting))
	}
	s.wantInt(1, "SELECT COUNT(*) FROM {lock_waits}")
	s.wantInt(0, "SELECT COUNT(*) FROM {key_waits}")
	s.idle("it waits for its lock")
	first := s.first()
	if len(first) != 1 || first[0].Task().ID != k[1] {
		t.Errorf("first for its lock: %+v", first)
	}
}

// A task gets its payload when it starts, however long that is, at once or after it has waited for its key.
func keyPayloads(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.perKey(jobs.KeyLimits{MaxRunning: 1}, jobs.OrderNone)
	var want []string
	for i, size := range []int{0, limits.ListedPayload, limits.ListedPayload + 1, 100_000} {
		for _, key := range []string{"a", "b"} {
			payload := ""
			if size > 0 {
				payload = `"` + strings.Repeat(strconv.Itoa(i), size-2) + `"`
			}
			s.newTask(jobs.NewTask{Key: key, Payload: json.RawMessage(payload)})
			want = append(want, payload)
		}
	}
	var got []string
	for range want {
		for _, task := range s.limitedClaim("work", 20).Tasks {
			if task.PayloadSize != len(task.Payload) {
				t.Errorf("the payload has %d bytes, and is said to have %d", len(task.Payload), task.PayloadSize)
			}
			got = append(got, string(task.Payload))
			s.ends(task.ID)
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
