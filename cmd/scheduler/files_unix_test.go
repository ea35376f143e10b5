//go:build unix

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/config"
	"github.com/lockstep-scheduler/lockstep/docs"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/exechandler"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// namedFile is one way to name a file that decides what runs or who is trusted.
type namedFile struct {
	name   string
	good   string // a content that it may have
	secret bool
	// use reads the file, and returns the error or warning; "" if none.
	use func(ctx context.Context, path string) string
}

// named lists all of them.
func named(t *testing.T) []namedFile {
	t.Helper()
	folder := t.TempDir()
	cert, key := filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem")
	selfSigned(t, cert, key, "one", time.Now().Add(time.Hour))
	pem := func(path string) string {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	command := func(ctx context.Context, environ []string, args ...string) string {
		var out, errs strings.Builder
		a := &app{stdin: strings.NewReader(""), stdout: &out, stderr: &errs, environ: append(environ, "PATH="+os.Getenv("PATH")), now: time.Now}
		if a.execute(ctx, args) == exitFine {
			return ""
		}
		return errs.String()
	}
	const jobsOfIt = "\njobs: {a: {command: [sh]}}\n"
	// by is a configuration that names the file as FILE, and the two files of a certificate.
	by := func(settings string) func(context.Context, string) string {
		settings = strings.NewReplacer("CERT", cert, "KEY", key).Replace(settings)
		return func(ctx context.Context, path string) string {
			main := filepath.Join(filepath.Dir(path), "main.yaml")
			if err := os.WriteFile(main, []byte("version: 1\n"+strings.ReplaceAll(settings, "FILE", path)+jobsOfIt), 0o600); err != nil {
				return err.Error()
			}
			return command(ctx, nil, "validate", main)
		}
	}
	const dsn = "user:password@tcp(127.0.0.1:3306)/db"
	const lockMySQL = "lock: {driver: mysql, mysql: {dsn: \"" + dsn + "\", tls: "
	const nodes = `nodes: [{addrs: ["127.0.0.1:1"]}, {addrs: ["127.0.0.1:2"]}, {addrs: ["127.0.0.1:3"]}]`
	token := "- {name: a, role: viewer, sha256: \"" + strings.Repeat("ab", 32) + "\"}\n"
	return []namedFile{
		{"the configuration", "version: 1" + jobsOfIt, false, func(ctx context.Context, path string) string { return command(ctx, nil, "validate", path) }},
		{"an included file", "jobs: {b: {command: [sh]}}\n", false, by("include: [FILE]")},
		{"store.dsn_file", dsn, true, by("store: {driver: mysql, dsn_file: FILE}")},
		{"store.tls.ca_file", pem(cert), false, by("store: {driver: mysql, dsn: \"" + dsn + "\", tls: {ca_file: FILE}}")},
		{"store.tls.cert_file", pem(cert), false, by("store: {driver: mysql, dsn: \"" + dsn + "\", tls: {cert_file: FILE, key_file: KEY}}")},
		{"store.tls.key_file", pem(key), true, by("store: {driver: mysql, dsn: \"" + dsn + "\", tls: {cert_file: CERT, key_file: FILE}}")},
		{"lock.mysql.dsn_file", dsn, true, by("lock: {driver: mysql, mysql: {dsn_file: FILE}}")},
		{"lock.redis.password_file", "x", true, by("lock: {driver: redis, redis: {password_file: FILE}}")},
		{"lock.redis.sentinel_password_file", "x", true, by("lock: {driver: redis, redis: {mode: sentinel, master_name: m, sentinel_password_file: FILE}}")},
		{"lock.mysql.tls.ca_file", pem(cert), false, by(lockMySQL + "{ca_file: FILE}}}")},
		{"lock.mysql.tls.cert_file", pem(cert), false, by(lockMySQL + "{cert_file: FILE, key_file: KEY}}}")},
		{"lock.mysql.tls.key_file", pem(key), true, by(lockMySQL + "{cert_file: CERT, key_file: FILE}}}")},
		{"lock.redis.tls.ca_file", pem(cert), false, by("lock: {driver: redis, redis: {tls: {ca_file: FILE}}}")},
		{"lock.redis.tls.cert_file", pem(cert), false, by("lock: {driver: redis, redis: {tls: {cert_file: FILE, key_file: KEY}}}")},
		{"lock.redis.tls.key_file", pem(key), true, by("lock: {driver: redis, redis: {tls: {cert_file: CERT, key_file: FILE}}}")},
		{"lock.quorum.password_file", "x", true, by("lock: {driver: quorum, quorum: {" + nodes + ", password_file: FILE}}")},
		{"lock.quorum.tls.ca_file", pem(cert), false, by("lock: {driver: quorum, quorum: {" + nodes + ", tls: {ca_file: FILE}}}")},
		{"lock.quorum.tls.cert_file", pem(cert), false, by("lock: {driver: quorum, quorum: {" + nodes + ", tls: {cert_file: FILE, key_file: KEY}}}")},
		{"lock.quorum.tls.key_file", pem(key), true, by("lock: {driver: quorum, quorum: {" + nodes + ", tls: {cert_file: CERT, key_file: FILE}}}")},
		{"lock.zookeeper.tls.ca_file", pem(cert), false, by("lock: {driver: zookeeper, zookeeper: {tls: {ca_file: FILE}}}")},
		{"lock.zookeeper.tls.cert_file", pem(cert), false, by("lock: {driver: zookeeper, zookeeper: {tls: {cert_file: FILE, key_file: KEY}}}")},
		{"lock.zookeeper.tls.key_file", pem(key), true, by("lock: {driver: zookeeper, zookeeper: {tls: {cert_file: CERT, key_file: FILE}}}")},
		{"lock.zookeeper.auth_file", "a:b", true, by("lock: {driver: zookeeper, zookeeper: {auth_file: FILE}}")},
		{"server.auth.tokens_file", token, true, by("server: {auth: {tokens_file: FILE}}")},
		{"server.tls.cert_file", pem(cert), false, by("server: {tls: {cert_file: FILE, key_file: KEY}}")},
		{"server.tls.key_file", pem(key), true, by("server: {tls: {cert_file: CERT, key_file: FILE}}")},
		{"token list --file", token, true, func(ctx context.Context, path string) string {
			return command(ctx, nil, "token", "list", "--file", path)
		}},
		{"token create --file", token, true, func(ctx context.Context, path string) string {
			return command(ctx, nil, "token", "create", "--name", "a", "--role", "viewer", "--file", path)
		}},
		{"LOCKSTEP_API_TOKEN_FILE", "t0ken", true, func(ctx context.Context, path string) string {
			_, err := (&app{environ: []string{"LOCKSTEP_API_TOKEN_FILE=" + path}, stderr: &strings.Builder{}}).remote()
			return said(err)
		}},
		{"--ca-file", pem(cert), false, func(ctx context.Context, path string) string {
			_, err := (&app{caFlag: path}).remote()
			return said(err)
		}},
		{"env_file", "A=b\n", false, func(ctx context.Context, path string) string {
			h, err := exechandler.New(exechandler.Command{Argv: []string{"sh", "-c", ":"}, EnvFiles: []string{path}, Environ: os.Environ()})
			if err == nil {
				err = h.Run(ctx, jobs.Task{ID: "a"}, &strings.Builder{})
			}
			return said(err)
		}},
	}
}

func said(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestNamedFilesAreComplete: each key of the configuration that names a file is in TestNamedFiles.
func TestNamedFilesAreComplete(t *testing.T) {
	tried := map[string]bool{}
	for _, f := range named(t) {
		tried[f.name] = true
	}
	var schema any
	if err := json.Unmarshal(docs.Schema, &schema); err != nil {
		t.Fatal(err)
	}
	seen := 0
	var walk func(node any, path []string)
	walk = func(node any, path []string) {
		switch node := node.(type) {
		case []any:
			for _, branch := range node {
				walk(branch, path)
			}
		case map[string]any:
			for word, child := range node {
				properties, _ := child.(map[string]any)
				switch {
				case word == "properties" && properties != nil:
					for key, child := range properties {
						at := append(slices.Clone(path), key)
						if name := strings.Join(at, "."); strings.HasSuffix(key, "_file") {
							if seen++; !tried[name] && (key != "env_file" || !tried[key]) {
								t.Errorf("%s names a file: add it to named()", name)
							}
						}
						walk(child, at)
					}
				case word == "additionalProperties":
					walk(child, append(slices.Clone(path), "NAME"))
				default: // a definition, a branch, a list
					walk(child, path)
				}
			}
		}
	}
	walk(schema, nil)
	if seen < 20 {
		t.Errorf("only %d keys seen", seen)
	}
}

// TestNamedFiles: a file that other users may change, or that blocks, is refused with advice wherever it is named. It
// is accepted before.
func TestNamedFiles(t *testing.T) {
	t.Parallel()
	for _, f := range named(t) {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "it")
			remedy := "chmod go-w " + path
			if f.secret {
				remedy = "chmod 600 " + path
			}
			holds := func(state string, wants ...string) {
				t.Helper()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				heard := make(chan string, 1)
				go func() { heard <- f.use(ctx, path) }()
				select {
				case got := <-heard:
					for _, want := range wants {
						if !strings.Contains(got, want) {
							t.Errorf("%s: %q does not say %q", state, got, want)
						}
					}
					if wants == nil && got != "" {
						t.Errorf("%s: %s", state, got)
					}
				case <-time.After(10 * time.Second):
					t.Errorf("%s: it hangs", state)
				}
			}
			put(t, path, f.good)
			holds("good")
			link := path + ".link"
			if err := os.Rename(path, link); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(link, path); err != nil {
				t.Fatal(err)
			}
			holds("behind a link, as container platforms mount it")
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			if err := syscall.Mkfifo(path, 0o600); err != nil {
				t.Fatal(err)
			}
			holds("a FIFO", path, "is a FIFO, not a regular file", "name a regular file")
			for _, mode := range []os.FileMode{0o666, 0o662} {
				_ = os.Remove(path)
				put(t, path, f.good)
				if err := os.Chmod(path, mode); err != nil {
					t.Fatal(err)
				}
				holds("written by others", path, "can be written by others", remedy)
			}
			if err := os.Truncate(path, 1<<30); err != nil { // of zeros, without a block on the disk
				t.Fatal(err)
			}
			if err := os.Chmod(path, 0o600); err != nil {
				t.Fatal(err)
			}
			holds("too large", path, "is larger than")
			if os.Geteuid() != 0 {
				servers.LeaveOut(t, "needs to be root, to make a file of another user")
			}
			put(t, path, f.good)
			if err := os.Chown(path, 4321, 4321); err != nil {
				t.Fatal(err)
			}
			holds("another user's", path, "is owned by user 4321", "chown 0 "+path)
			if err := os.Chmod(path, 0o664); err != nil {
				t.Fatal(err)
			}
			if !f.secret {
				holds("written by the private group of another user", path, "is owned by user 4321")
			}
			if err := os.Chown(path, 0, 0); err != nil {
				t.Fatal(err)
			}
			holds("written by group 0", path, "can be written by others (mode 0664)", remedy)
			if err := os.Chown(path, 4321, 4321); err != nil {
				t.Fatal(err)
			}
			servers.Grant(t, path, 65534)
			holds("written by whom an ACL names", path, "can be written by others (mode 0664", remedy)
		})
	}
}

// TestConfigurationFromAPipe: a configuration may be an inherited pipe.
func TestConfigurationFromAPipe(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := w.WriteString("version: 1\njobs: {a: {command: [sh]}}\n"); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	c, err := config.Load(fmt.Sprint("/dev/fd/", r.Fd()), config.Options{})
	if err != nil || len(c.Set.Jobs) != 1 {
		t.Error(err)
	}
}
