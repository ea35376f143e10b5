package servers

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// Small files make a fresh server cheap to copy and fast to start.
const (
	innodbLogSize = "--innodb-log-file-size=16M"
	ariaLogSize   = "--aria-log-file-size=8M"
)

// account is a user of this machine.
type account struct{ uid, gid uint32 }

// accountOf is the account of a server that refuses root, so then its own; else that of the test (nil).
func accountOf(name string) *account {
	if os.Getuid() != 0 {
		return nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		return nil // its log has a better reason
	}
	uid, _ := strconv.ParseUint(u.Uid, 10, 32)
	gid, _ := strconv.ParseUint(u.Gid, 10, 32)
	return &account{uint32(uid), uint32(gid)}
}

// copyTemplate makes a fresh data folder at dir. Initialising one takes seconds, so it is done once
// per version and machine, and copied from then on.
func copyTemplate(dir string, owner *account) error {
	template, err := mysqlTemplate(owner)
	if err != nil {
		return err
	}
	err = filepath.WalkDir(template, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(template, path)
		if err != nil {
			return err
		}
		target := filepath.Join(dir, rel)
		if entry.IsDir() {
			err = os.Mkdir(target, 0o755)
		} else if content, readErr := os.ReadFile(path); readErr != nil {
			return readErr
		} else {
			err = os.WriteFile(target, content, 0o644)
		}
		if err != nil || owner == nil {
			return err
		}
		return os.Chown(target, int(owner.uid), int(owner.gid))
	})
	if err != nil {
		return fmt.Errorf("copy the data folder: %w", err)
	}
	return nil
}

// mysqlTemplate returns an initialised data folder that no server uses. It appears by rename, so test binaries
// that make it at the same time do not see an incomplete one.
func mysqlTemplate(owner *account) (string, error) {
	program, _ := find("mariadbd")
	version, err := exec.Command(program, "--no-defaults", "--version").Output()
	if err != nil {
		return "", fmt.Errorf("ask mariadbd for its version: %w", err)
	}
	key := sha256.Sum256(append(version, innodbLogSize+ariaLogSize...))
	template := filepath.Join(os.TempDir(), fmt.Sprintf("lockstep-mariadb-%d-%x", os.Getuid(), key[:6]))
	if info, err := os.Lstat(template); err == nil {
		return template, oursAlone(info, owner)
	}

	fresh, err := os.MkdirTemp("", "lockstep-mariadb-new-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(fresh)
	install, _ := find("mariadb-install-db")
	cmd := exec.Command(install, "--no-defaults", "--datadir="+fresh, "--auth-root-authentication-method=normal",
		"--skip-test-db", "--skip-name-resolve", innodbLogSize, ariaLogSize)
	cmd.Env = append(os.Environ(), "TMPDIR="+fresh) // the test's folder may be closed to the account
	cmd.SysProcAttr = attributes(owner)
	if owner != nil {
		if err := os.Chown(fresh, int(owner.uid), int(owner.gid)); err != nil {
			return "", err
		}
	}
	var out []byte
	if err := onKeeper(func() (err error) { out, err = cmd.CombinedOutput(); return err }); err != nil {
		return "", fmt.Errorf("mariadb-install-db: %w\n%s", err, out)
	}
	if err := os.Rename(fresh, template); err != nil && !errors.Is(err, fs.ErrExist) && !errors.Is(err, syscall.ENOTEMPTY) {
		return "", err
	}
	return template, nil
}

// oursAlone refuses a template that another user made under the expected name.
func oursAlone(info fs.FileInfo, owner *account) error {
	want := uint32(os.Getuid())
	if owner != nil {
		want = owner.uid
	}
	if uid, known := ownerOf(info); !known || !info.IsDir() || uid != want || info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%s is not a folder that only user %d can write: remove it", info.Name(), want)
	}
	return nil
}
