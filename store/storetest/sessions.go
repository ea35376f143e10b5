package storetest

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/process"
	"github.com/lockstep-scheduler/lockstep/store"
)

var sessionCases = []Case{
	{"Sessions/JoinAndPeers", joinAndPeers},
	{"Sessions/ReplicaIDIsUnique", replicaIDIsUnique},
	{"Sessions/OneOfManyJoins", oneOfManyJoins},
	{"Sessions/LockServicesAgree", lockServicesAgree},
	{"Sessions/LockServicesAgreeAtOnce", lockServicesAgreeAtOnce},
	{"Sessions/DeadProcessIsEvicted", deadProcessIsEvicted},
	{"Sessions/OthersAreNotEvicted", othersAreNotEvicted},
	{"Sessions/BeatIsTheDatabasesTime", beatIsTheDatabasesTime},
	{"Sessions/BuryComparesTheBeat", buryComparesTheBeat},
	{"Sessions/Leave", leave},
	{"Sessions/Draining", draining},
	{"Sessions/DeadPeersAreNone", deadPeers},
}

// Member is a replica of this test.
func Member(replica string) ledger.Member {
	return ledger.Member{
		Replica: replica, Host: "host", PID: 1 << 30, BootID: "", Version: "v1", Address: "127.0.0.1:1",
		Workers: 3, Labels: map[string]string{"zone": "ä"}, LockService: "memory",
	}
}

// Join joins and returns the session.
func Join(t *testing.T, b *Bench, replica string) string {
	t.Helper()
	session, err := b.Store.Join(t.Context(), Member(replica))
	must(t, err)
	return session
}

func joinAndPeers(t *testing.T, b *Bench) {
	patient := Member("b")
	patient.TTL, patient.Config = 7*time.Second, 3
	second, err := b.Store.Join(t.Context(), patient)
	must(t, err)
	first := Join(t, b, "a")
	peers, err := b.Open(t).Peers(t.Context())
	must(t, err)
	want := []ledger.Peer{
		{Member: Member("a"), Session: first},
		{Member: patient, Session: second},
	}
	if diff := cmp.Diff(want, peers, cmpopts.IgnoreFields(ledger.Peer{}, "JoinedAt", "SeenAt")); diff != "" {
		t.Fatal(diff)
	}
	if age := time.Since(peers[0].JoinedAt); age < -time.Minute || age > time.Minute {
		t.Fatalf("joined %s ago", age)
	}
	beat, err := b.Store.Beat(t.Context(), first)
	must(t, err)
	later, err := b.Store.Peers(t.Context())
	must(t, err)
	if was, is := peers[0], later[0]; was.SeenAt != was.JoinedAt || is.JoinedAt != was.JoinedAt || !is.SeenAt.Equal(beat) || is.Beat != 1 {
		t.Errorf("at %s it beats, and %+v became %+v", beat, was, is)
	}
}

func replicaIDIsUnique(t *testing.T, b *Bench) {
	session := Join(t, b, "Web")
	_, err := b.Store.Join(t.Context(), Member("Web"))
	if !errors.Is(err, ledger.ErrReplicaLive) || !strings.Contains(err.Error(), `"Web"`) {
		t.Fatalf("got %v, want ErrReplicaLive and the name", err)
	}
	Join(t, b, "web") // another name
	must(t, b.Store.Leave(t.Context(), session))
	Join(t, b, "Web")
}

func oneOfManyJoins(t *testing.T, b *Bench) {
	var joined atomic.Int32
	other := b.Open(t)
	Together(t, 16, func(ctx context.Context, i int) error {
		s := b.Store
		if i%2 == 0 {
			s = other
		}
		_, err := s.Join(ctx, Member("a"))
		if err == nil {
			joined.Add(1)
		} else if !errors.Is(err, ledger.ErrReplicaLive) {
			return err
		}
		return nil
	})
	if n := joined.Load(); n != 1 {
		t.Fatalf("%d joined under one id", n)
	}
}

func lockServicesAgree(t *testing.T, b *Bench) {
	Join(t, b, "a")
	m := Member("b")
	m.LockService = "redis 7f"
	_, err := b.Store.Join(t.Context(), m)
	if !errors.Is(err, ledger.ErrLockService) || !strings.Contains(err.Error(), "redis 7f") || !strings.Contains(err.Error(), "memory") {
		t.Fatalf("got %v, want ErrLockService that names both", err)
	}
	Join(t, b, "b")
	if _, err := b.Store.Join(t.Context(), m); !errors.Is(err, ledger.ErrLockService) { // a comes first
		t.Errorf("got %v, want ErrLockService", err)
	}
}

func lockServicesAgreeAtOnce(t *testing.T, b *Bench) {
	var joined atomic.Int32
	other := b.Open(t)
	Together(t, 8, func(ctx context.Context, i int) error {
		s, m := b.Store, Member("r"+strconv.Itoa(i))
		if i%2 == 0 {
			s = other
		}
		m.LockService = "service " + strconv.Itoa(i)
		_, err := s.Join(ctx, m)
		if err == nil {
			joined.Add(1)
		} else if !errors.Is(err, ledger.ErrLockService) {
			return err
		}
		return nil
	})
	if n := joined.Load(); n != 1 {
		t.Fatalf("%d replicas with different lock services joined", n)
	}
}

// as makes m the replica of a process.
func as(m ledger.Member, id process.ID) ledger.Member {
	m.BootID, m.PID, m.PIDStart = id.Boot, id.PID, id.Start
	return m
}

// deadProcessIsEvicted starts a real process, joins as it, and kills it.
func deadProcessIsEvicted(t *testing.T, b *Bench) {
	self := process.Self()
	if self.Start == 0 {
		t.Skip("processes have no names here: a predecessor is found dead by its beat alone")
	}
	cmd := exec.Command("sleep", "60")
	must(t, cmd.Start())
	child := process.ID{Boot: self.Boot, PID: cmd.Process.Pid, Start: startOf(t, cmd.Process.Pid)}
	old, err := b.Store.Join(t.Context(), as(Member("a"), child))
	must(t, err)
	next := as(Member("a"), self)
	if _, err := b.Store.Join(t.Context(), next); !errors.Is(err, ledger.ErrReplicaLive) {
		t.Fatalf("the process lives, and Join says %v", err)
	}
	must(t, cmd.Process.Kill())
	_ = cmd.Wait()
	next.LockService = "another" // no live session is left that would have to agree
	if _, err := b.Store.Join(t.Context(), next); err != nil {
		t.Fatalf("the process is gone, and Join says %v", err)
	}
	if _, err := b.Store.Beat(t.Context(), old); !errors.Is(err, ledger.ErrSessionDead) {
		t.Fatalf("the predecessor's beat: %v", err)
	}

	// Live sessions stay, whichever are evicted beside them.
	living := next
	living.Replica, living.Host = "b", "elsewhere"
	beside, err := b.Store.Join(t.Context(), living)
	must(t, err)
	next.Replica = "c"
	_, err = b.Store.Join(t.Context(), as(next, child))
	must(t, err)
	_, err = b.Store.Join(t.Context(), next)
	must(t, err)
	if _, err := b.Store.Beat(t.Context(), beside); err != nil {
		t.Fatalf("the beat of one that lives: %v", err)
	}
}

func startOf(t *testing.T, pid int) int64 {
	t.Helper()
	line, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	must(t, err)
	start, err := strconv.ParseInt(strings.Fields(string(line[bytes.LastIndexByte(line, ')')+1:]))[19], 10, 64)
	must(t, err)
	return start
}

// othersAreNotEvicted: this machine cannot check the processes of another one, of another
// boot, or of another container.
func othersAreNotEvicted(t *testing.T, b *Bench) {
	gone := process.ID{Boot: process.Self().Boot, PID: 1 << 30, Start: 5}
	for name, change := range map[string]func(m *ledger.Member){
		"boot":    func(m *ledger.Member) { m.BootID = "another" },
		"no boot": func(m *ledger.Member) { m.BootID = "" },
		"host":    func(m *ledger.Member) { m.Host = "another" },
		"start":   func(m *ledger.Member) { m.PIDStart = 0 },
	} {
		m := as(Member(name), gone)
		change(&m)
		_, err := b.Store.Join(t.Context(), m)
		must(t, err)
		if _, err := b.Store.Join(t.Context(), as(Member(name), process.Self())); !errors.Is(err, ledger.ErrReplicaLive) {
			t.Fatalf("%s: got %v, want ErrReplicaLive", name, err)
		}
	}
}

func beatIsTheDatabasesTime(t *testing.T, b *Bench) {
	session := Join(t, b, "a")
	var last time.Time
	for n := range 3 {
		now, err := b.Store.Beat(t.Context(), session)
		must(t, err)
		if now.Before(last) || time.Since(now).Abs() > time.Minute || now.Location() != time.UTC {
			t.Fatalf("beat %d at %s after %s", n, now, last)
		}
		last = now
	}
	if n := b.DB.Int(t, `SELECT beat FROM {sessions} WHERE id = ?`, session); n != 3 {
		t.Fatalf("3 beats made %d", n)
	}
	if _, err := b.Store.Beat(t.Context(), "nobody"); !errors.Is(err, ledger.ErrSessionDead) {
		t.Fatalf("a session without a row: %v", err)
	}
}

func buryComparesTheBeat(t *testing.T, b *Bench) {
	session := Join(t, b, "a")
	_, err := b.Store.Beat(t.Context(), session)
	must(t, err)
	expire := func(beat int64, want bool) {
		t.Helper()
		got, err := b.Store.Expire(t.Context(), session, beat)
		must(t, err)
		if got != want {
			t.Fatalf("expired at beat %d: %t", beat, got)
		}
	}
	expire(0, false)
	if _, err := b.Store.Beat(t.Context(), session); err != nil {
		t.Fatal(err)
	}
	expire(1, false)
	expire(2, true)
	expire(2, false)
	if _, err := b.Store.Beat(t.Context(), session); !errors.Is(err, ledger.ErrSessionDead) {
		t.Fatalf("a expired session's beat: %v", err)
	}
	if err := b.Store.SetDraining(t.Context(), session); !errors.Is(err, ledger.ErrSessionDead) {
		t.Fatalf("a expired session drains: %v", err)
	}
	Join(t, b, "a")
}

// sessionsFail: a statement that fails is no answer about a session, which would end its replica.
func sessionsFail(t *testing.T, b *Bench) {
	session := Join(t, b, "a")
	b.DB.Exec(t, "ALTER TABLE {sessions} RENAME TO {elsewhere}")
	_, beat := b.Store.Beat(t.Context(), session)
	drain := b.Store.SetDraining(t.Context(), session)
	expired, expire := b.Store.Expire(t.Context(), session, 0)
	leave := b.Store.Leave(t.Context(), session)
	b.DB.Exec(t, "ALTER TABLE {elsewhere} RENAME TO {sessions}")
	for op, err := range map[string]error{"beat": beat, "drain": drain, "expire": expire, "leave": leave} {
		if !errors.Is(err, store.ErrSchema) || errors.Is(err, ledger.ErrSessionDead) {
			t.Errorf("%s: %v", op, err)
		}
	}
	if expired {
		t.Error("it was declared dead")
	}
	if _, err := b.Store.Beat(t.Context(), session); err != nil {
		t.Error(err)
	}
}

func leave(t *testing.T, b *Bench) {
	session := Join(t, b, "a")
	must(t, b.Store.Leave(t.Context(), session))
	must(t, b.Store.Leave(t.Context(), session))
	peers, err := b.Store.Peers(t.Context())
	must(t, err)
	if len(peers) != 0 {
		t.Fatalf("still there: %v", peers)
	}
}

func draining(t *testing.T, b *Bench) {
	session := Join(t, b, "a")
	must(t, b.Store.SetDraining(t.Context(), session))
	must(t, b.Store.SetDraining(t.Context(), session))
	peers, err := b.Store.Peers(t.Context())
	must(t, err)
	if !peers[0].Draining || peers[0].Dead {
		t.Fatalf("%+v", peers[0])
	}
}

func deadPeers(t *testing.T, b *Bench) {
	quiet, busy := Join(t, b, "quiet"), Join(t, b, "busy")
	Pools(t, b, Join(t, b, "z"), "p")
	id := Enqueue(t, b, newTask("p"))[0].Task.ID
	b.DB.Exec(t, `UPDATE {tasks} SET state = 2, session_id = ? WHERE id = ?`, busy, id)
	must(t, b.Store.Leave(t.Context(), quiet))
	must(t, b.Store.Leave(t.Context(), busy))
	peers, err := b.Store.Peers(t.Context())
	must(t, err)
	if len(peers) != 1 || peers[0].Replica != "z" || peers[0].Dead {
		t.Errorf("peers are %+v", peers)
	}
}
