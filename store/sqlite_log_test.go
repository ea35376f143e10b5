package store_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/store"
)

// crashed makes a database and its log as a killed replica leaves them: what was written last is in the log alone. backup is a
// copy of the database that VACUUM INTO made before that, and raw one of the file itself.
func crashed(t *testing.T) (path string, backup, raw []byte) {
	t.Helper()
	dir := t.TempDir()
	path = filepath.Join(dir, "s.db")
	st, err := store.Open(t.Context(), "sqlite", path, store.Options{})
	if err == nil {
		err = st.Migrate(t.Context())
	}
	if err == nil {
		err = st.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	if raw, err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	backup = vacuumed(t, path)
	crash(t, path, "last")
	return path, backup, raw
}

// crash leaves a database and its log as a replica that has joined and is killed does.
func crash(t *testing.T, path, replica string) {
	t.Helper()
	st, err := store.Open(t.Context(), "sqlite", path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := st.Sides().Replica.Join(t.Context(), ledger.Member{Replica: replica}); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile(path + "-wal")
	if err != nil || len(log) == 0 {
		t.Fatalf("%d bytes of log: %v", len(log), err)
	}
	if err := st.Close(); err != nil { // which moves the log into the file
		t.Fatal(err)
	}
	write(t, path, file)
	write(t, path+"-wal", log)
}

// replace puts another file in the place of one, with an inode of its own.
func replace(t *testing.T, path string, content []byte) {
	t.Helper()
	write(t, path+".new", content) // before the other is removed: it might get its inode
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func vacuumed(t *testing.T, path string) []byte {
	t.Helper()
	copied := filepath.Join(t.TempDir(), "backup.db")
	db, err := sql.Open("sqlite", path)
	if err == nil {
		_, err = db.Exec("VACUUM INTO '" + copied + "'")
		err = errors.Join(err, db.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(copied)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, paths ...string) {
	t.Helper()
	for _, path := range paths {
		if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
}

// replicasOf lists the replicas that have joined.
func replicasOf(t *testing.T, open func(context.Context, string) (*store.Store, error), path string) string {
	t.Helper()
	st, err := open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	peers, err := st.Sides().Replica.Peers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, p := range peers {
		all = append(all, p.Replica)
	}
	return strings.Join(all, " ")
}

func toWork(ctx context.Context, path string) (*store.Store, error) {
	return store.Open(ctx, "sqlite", path, store.Options{})
}

func toRead(ctx context.Context, path string) (*store.Store, error) {
	return store.OpenReadOnly(ctx, path, store.Options{})
}

// contents are the files of a folder with their sums, without the index of a log.
func contents(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), "-shm") {
			continue
		}
		content, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&all, "%s %x\n", e.Name(), sha256.Sum256(content))
	}
	return all.String()
}

// A log beside a database that it does not belong to is not opened, and neither is changed: SQLite would write it over the
// database.
func TestTheLogOfAnotherDatabaseIsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		put   func(t *testing.T, path string, backup, raw []byte)
		want  string
		inode bool // where inodes are known
	}{
		"a backup in place of a deleted file": {put: func(t *testing.T, path string, backup, _ []byte) {
			remove(t, path)
			write(t, path, backup)
		}, want: "remove s.db-wal and s.db-shm"},
		"a backup written over the file": {put: func(t *testing.T, path string, backup, _ []byte) {
			write(t, path, backup)
		}, want: "s.db-wal is the log of another database"},
		"the file of another time": {put: func(t *testing.T, path string, _, raw []byte) {
			replace(t, path, raw)
		}, want: "s.db is not the file that was open when s.db-wal was written", inode: true},
		"the file of another time, with the same inode": {put: func(t *testing.T, path string, _, raw []byte) {
			remove(t, path)
			write(t, path, raw)
		}, want: "s.db is not the file that was open when s.db-wal was written", inode: true},
		"a deleted file": {put: func(t *testing.T, path string, _, _ []byte) {
			remove(t, path)
		}, want: "s.db-wal is here without s.db: the database was deleted"},
		"an emptied file": {put: func(t *testing.T, path string, _, _ []byte) {
			write(t, path, nil)
		}, want: "s.db is empty, and s.db-wal is not"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, backup, raw := crashed(t)
			if c.inode && runtime.GOOS != "linux" {
				t.Log("this system has no identities of files: nothing to hold")
				return
			}
			c.put(t, path, backup, raw)
			before := contents(t, filepath.Dir(path))
			for how, open := range map[string]func(context.Context, string) (*store.Store, error){"to work": toWork, "to read": toRead} {
				if st, err := open(t.Context(), path); err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("opened %s: %v", how, err)
					if err == nil {
						_ = st.Close()
					}
				}
			}
			if after := contents(t, filepath.Dir(path)); after != before {
				t.Errorf("it was changed:\n%s\nfrom\n%s", after, before)
			}
			write(t, path, backup) // what the messages say
			remove(t, path+"-wal", path+"-shm")
			if all := replicasOf(t, toWork, path); all != "" {
				t.Errorf("the backup has %q, and had nobody", all)
			}
		})
	}
}

// Behind a link it is the database that is named, and not the link: its log lies beside it.
func TestALogBehindALinkIsNamed(t *testing.T) {
	path, _, _ := crashed(t)
	remove(t, path)
	dir := t.TempDir()
	near, err := filepath.Rel(dir, path)
	if err != nil {
		t.Fatal(err)
	}
	link, relative := filepath.Join(dir, "link.db"), filepath.Join(dir, "relative.db")
	if err := errors.Join(os.Symlink(path, link), os.Symlink(near, relative)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{link, relative} {
		if _, err := toWork(t.Context(), name); err == nil || !strings.Contains(err.Error(), "s.db-wal is here without s.db: the database was deleted") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A log without content belongs to any database, and one beside a database of which nothing is known to that one.
func TestLogsOfNoOtherDatabaseAreOpened(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		put  func(t *testing.T, path string, backup, raw []byte)
		want string // the replicas that have joined
	}{
		"no content, beside a file of another time": {put: func(t *testing.T, path string, _, raw []byte) {
			replace(t, path, raw)
			write(t, path+"-wal", nil)
		}},
		"no content, beside a backup": {put: func(t *testing.T, path string, backup, _ []byte) {
			replace(t, path, backup)
			write(t, path+"-wal", nil)
		}},
		"no identity": {put: func(t *testing.T, path string, _, _ []byte) {
			write(t, path+"-turn", make([]byte, 24))
		}, want: "last"},
		"half an identity": {put: func(t *testing.T, path string, _, _ []byte) {
			write(t, path+"-turn", bytes.Repeat([]byte{1}, 12))
		}, want: "last"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, backup, raw := crashed(t)
			c.put(t, path, backup, raw)
			if all := replicasOf(t, toRead, path); all != c.want {
				t.Errorf("who looks sees %q, want %q", all, c.want)
			}
			if all := replicasOf(t, toWork, path); all != c.want {
				t.Errorf("%q have joined, want %q", all, c.want)
			}
		})
	}
}

// A backup that was put in the place of the database is the one that is known from its first opening on.
func TestARestoredDatabaseIsRecovered(t *testing.T) {
	path, backup, _ := crashed(t)
	replace(t, path, backup)
	remove(t, path+"-wal", path+"-shm")
	crash(t, path, "later")
	if all := replicasOf(t, toWork, path); all != "later" {
		t.Errorf("%q have joined", all)
	}
}

// What a killed replica left is recovered: where it was, in a folder of another name, and elsewhere once the message is followed.
func TestTheOwnLogIsRecovered(t *testing.T) {
	path, _, _ := crashed(t)
	moved := filepath.Join(t.TempDir(), "moved")
	if err := os.Rename(filepath.Dir(path), moved); err != nil {
		t.Fatal(err)
	}
	copied := t.TempDir()
	for _, suffix := range []string{"", "-wal", "-turn"} {
		content, err := os.ReadFile(filepath.Join(moved, "s.db"+suffix))
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(copied, "s.db"+suffix), content)
	}
	if runtime.GOOS == "linux" {
		if st, err := toWork(t.Context(), filepath.Join(copied, "s.db")); err == nil || !strings.Contains(err.Error(), "copied or moved here together, remove s.db-turn") {
			t.Errorf("a copy: %v", err)
			if err == nil {
				_ = st.Close()
			}
		}
	}
	remove(t, filepath.Join(copied, "s.db-turn"))
	for _, dir := range []string{moved, copied} {
		if all := replicasOf(t, toWork, filepath.Join(dir, "s.db")); all != "last" {
			t.Errorf("%q have joined", all)
		}
	}
}

// After a clean stop there is no log, and a copy of the folder opens as it is.
func TestACopyOfAClosedDatabaseOpens(t *testing.T) {
	path, _, _ := crashed(t)
	replicasOf(t, toWork, path)
	copied := t.TempDir()
	if err := os.CopyFS(copied, os.DirFS(filepath.Dir(path))); err != nil {
		t.Fatal(err)
	}
	if all := replicasOf(t, toWork, filepath.Join(copied, "s.db")); all != "last" {
		t.Errorf("%q have joined", all)
	}
}

// A read-only store changes nothing: not what a killed replica left, nor a closed database, nor one that a replica works on.
func TestOpenReadOnlyChangesNothing(t *testing.T) {
	path, _, _ := crashed(t)
	for _, state := range []string{"killed", "closed", "in use"} {
		var st *store.Store
		if state != "killed" {
			replicasOf(t, toWork, path)
		}
		if state == "in use" {
			var err error
			if st, err = toWork(t.Context(), path); err != nil {
				t.Fatal(err)
			}
			defer st.Close()
			if _, err := st.Sides().Replica.Join(t.Context(), ledger.Member{Replica: "more"}); err != nil {
				t.Fatal(err)
			}
		}
		before, want := contents(t, filepath.Dir(path)), "last"
		if st != nil {
			want = "last more"
		}
		if all := replicasOf(t, toRead, path); all != want {
			t.Errorf("%s: it sees %q", state, all)
		}
		if after := contents(t, filepath.Dir(path)); after != before {
			t.Errorf("%s: it was changed:\n%s\nfrom\n%s", state, after, before)
		}
	}
	look, err := toRead(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer look.Close()
	if _, err := look.Sides().Replica.Join(t.Context(), ledger.Member{Replica: "r"}); err == nil {
		t.Error("it has written")
	}
}

// A replica that is killed while SQLite moves the log into the database leaves one whose head says more than there is. The
// log has the rest.
func TestADatabaseThatIsShorterThanItsHeadSays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	st := open(t, store.SQLite, path, store.Options{})
	if err := st.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile(path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Close(); err != nil { // which moves it
		t.Fatal(err)
	}
	for _, pages := range []int64{1, 2} {
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		write(t, path, whole[:pages*4096])
		write(t, path+"-wal", log)
		st, err := store.Open(t.Context(), "sqlite", path, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(st.CheckSchema(t.Context()), st.Close()); err != nil {
			t.Errorf("%d pages: %v", pages, err)
		}
	}
}

// A read-only store that opened a database before it had a log reports no deleted log when the replica that made it has stopped.
func TestALogThatCameLaterMayGo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	st := open(t, store.SQLite, path, store.Options{})
	if err := errors.Join(st.Migrate(t.Context()), st.Close()); err != nil {
		t.Fatal(err)
	}
	look, err := store.OpenReadOnly(t.Context(), path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer look.Close()
	st = open(t, store.SQLite, path, store.Options{})
	if err := errors.Join(look.CheckSchema(t.Context()), st.Close(), look.CheckSchema(t.Context())); err != nil {
		t.Error(err)
	}
}

// A link may lead to where the database is to be.
func TestALinkToNoFileYet(t *testing.T) {
	dir := t.TempDir()
	link, path := filepath.Join(dir, "link.db"), filepath.Join(dir, "s.db")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	st := open(t, store.SQLite, link, store.Options{})
	if err := st.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
}
