package main

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/syskeys"
	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/redislock"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// Doctor checkpoints no write-ahead log, whether a replica uses the database or was killed, and opens no log of another
// user.
func TestDoctorChangesNoDatabase(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "lockstep.db")
	st := migrated(t, "sqlite", file)
	if _, err := st.Sides().Replica.Join(t.Context(), ledger.Member{Replica: "a"}); err != nil {
		t.Fatal(err)
	}
	unchanged := func(dir string, do func()) {
		t.Helper()
		before := databaseIn(t, dir)
		do()
		if after := databaseIn(t, dir); !bytes.Equal(after, before) {
			t.Errorf("it was changed:\n%s\nfrom\n%s", beginning(after), beginning(before))
		}
	}
	unchanged(dir, func() {
		all, _ := runDoctor(t, dir, "")
		wantFinding(t, all, "ok store: sqlite answers", "ok schema: ", "1 live replica")
	})
	killed := t.TempDir()
	for _, suffix := range []string{"", "-wal"} {
		content, err := os.ReadFile(file + suffix)
		if err == nil {
			err = os.WriteFile(filepath.Join(killed, "lockstep.db"+suffix), content, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	unchanged(killed, func() {
		all, _ := runDoctor(t, killed, "")
		wantFinding(t, all, "ok store: sqlite answers", "1 live replica")
	})
	refused := func(want string) {
		t.Helper()
		unchanged(killed, func() {
			all, code := runDoctor(t, killed, "")
			wantFinding(t, all, "problem store: ", want)
			if code != 1 {
				t.Errorf("exit code %d: %v", code, all)
			}
		})
	}
	if err := os.Truncate(filepath.Join(killed, "lockstep.db"), 0); err != nil {
		t.Fatal(err)
	}
	refused("lockstep.db is empty, and lockstep.db-wal is not")
	if err := os.Remove(filepath.Join(killed, "lockstep.db")); err != nil {
		t.Fatal(err)
	}
	refused("lockstep.db-wal is here without lockstep.db")
}

// databaseIn is the content of the database files in dir, except the index of the log.
func databaseIn(t *testing.T, dir string) []byte {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*lockstep.db*"))
	if err != nil {
		t.Fatal(err)
	}
	var all bytes.Buffer
	for _, name := range names {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(name, "-shm") {
			all.WriteString("\n" + filepath.Base(name) + "\n")
			all.Write(content)
		}
	}
	return all.Bytes()
}

func beginning(content []byte) []byte { return content[:min(len(content), 200)] }

// The lock service is checked even if the store cannot be reached.
func TestDoctorLooksAtTheLockWithoutTheStore(t *testing.T) {
	t.Parallel()
	const unreachable = "store: {driver: mysql, dsn: \"u:p@tcp(127.0.0.1:1)/db\"}\n"
	for text, want := range map[string]string{
		unreachable: "warning lock: not checked: locks are rows of the store's own database: run doctor again once the store answers",
		unreachable + fmt.Sprintf("lock: {driver: redis, redis: {addrs: [%q]}}", servers.Redis(t)): "the rest is not checked yet: run doctor again once the store answers",
		unreachable + `lock: {driver: redis, redis: {addrs: ["127.0.0.1:1"]}}`:                     "problem lock: lock service redis 127.0.0.1:1",
		`store: {dsn: none/a.db}`: "warning lock: not checked: locks are rows of the store's own database",
	} {
		all, code := runDoctor(t, t.TempDir(), text)
		wantFinding(t, all, "problem store: ", want)
		if code != exitFailed {
			t.Errorf("exit code %d", code)
		}
	}
}

// A file that names its namespace, and whose locks are elsewhere, is enough for "locks exec": so it is for the doctor.
func TestDoctorProvesTheLockWithoutTheStore(t *testing.T) {
	t.Parallel()
	text := fmt.Sprintf("name: doctor-%s\nstore: {dsn: none.db}\nlock: {driver: mysql, ttl: 2s, mysql: {dsn: %%q}}\n", strings.ToLower(rand.Text()[:8]))
	dsn := servers.MySQL(t)
	all, code := runDoctor(t, t.TempDir(), fmt.Sprintf(text, dsn))
	wantFinding(t, all, "warning store: ", "ok lock: proved in ")
	if code != 0 {
		t.Errorf("exit code %d: %v", code, all)
	}
	all, code = runDoctor(t, t.TempDir(), fmt.Sprintf(text, "nobody:wrong"+dsn[strings.Index(dsn, "@"):]))
	wantFinding(t, all, "problem lock: ")
	if code != exitFailed {
		t.Errorf("with a wrong password: exit code %d: %v", code, all)
	}
}

// Replicas of another store in the same namespace are found by their locks.
func TestDoctorSeesAnotherStoreUnderTheSameName(t *testing.T) {
	t.Parallel()
	addr := servers.Redis(t)
	name := "same-" + strings.ToLower(rand.Text()[:8])
	dir := t.TempDir()
	st := migrated(t, "sqlite", filepath.Join(dir, "lockstep.db"))
	own, err := st.Namespace(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer rdb.Close()
	locker, err := locks.New(redislock.NewWith(rdb, redislock.Options{NoGracePeriod: true}), locks.Options{Namespace: name})
	if err != nil {
		t.Fatal(err)
	}
	defer locker.Close(t.Context())
	text := fmt.Sprintf("name: %s\nlock: {driver: redis, redis: {addrs: [%q]}}", name, addr)
	const says = "of another store holds locks of the same names"
	for n, meta := range []string{"older", "a of store " + own, "b of store 0000"} {
		got, err := locker.TryAcquire(syskeys.Allow(t.Context()), locks.Request{Key: fmt.Sprintf("sys/stripe/%02d", n), Meta: meta})
		if err != nil || got[0].Err != nil {
			t.Fatal(err, got)
		}
		all, _ := runDoctor(t, dir, text)
		if said := strings.Contains(strings.Join(all, "\n"), "warning lock: replica b "+says); said != (n == 2) {
			t.Errorf("held by %q:\n%s", meta, strings.Join(all, "\n"))
		}
	}
}
