package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/api"
	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/config"
	"github.com/lockstep-scheduler/lockstep/store"
)

// program calls the program with an environment.
func program(t *testing.T, environ []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs strings.Builder
	a := &app{stdin: strings.NewReader(""), stdout: &out, stderr: &errs, environ: environ, now: time.Now}
	code = a.execute(t.Context(), args)
	return code, out.String(), errs.String()
}

// TestTokenCreate: the token is printed once, alone, and not stored; its entry is accepted by the API.
func TestTokenCreate(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens.yaml")
	code, stdout, stderr := program(t, nil, "token", "create", "--name", "ci", "--role", "operator", "--expires", "90d", "--file", file)
	secret := strings.TrimSuffix(stdout, "\n")
	if code != exitFine || len(secret) < 43 || strings.ContainsAny(secret, " \n") || strings.Contains(stderr, secret) {
		t.Fatalf("%d %q %q", code, stdout, stderr)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if text, err := os.ReadFile(file); err != nil || strings.Contains(string(text), secret) {
		t.Errorf("%v: %s", err, text)
	}
	list, err := config.LoadTokens(file)
	if err != nil || len(list) != 1 || list[0].SHA256 != sha256.Sum256([]byte(secret)) || list[0].Name != "ci" {
		t.Fatalf("%v %v", list, err)
	}
	if left := time.Until(list[0].Expires); left < 89*24*time.Hour || left > 90*24*time.Hour {
		t.Errorf("expires %v", list[0].Expires)
	}
	if who, err := api.NewTokens(list...).Identify(secret); err != nil || who.Name != "ci" || who.Role != api.Operator {
		t.Errorf("%v %v", who, err)
	}

	// Several at once: none is lost.
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			if code, _, stderr := program(t, nil, "token", "create", "--name", fmt.Sprint("n", i), "--role", "viewer", "--file", file); code != exitFine {
				t.Error(stderr)
			}
		})
	}
	all.Wait()
	if list, err := config.LoadTokens(file); err != nil || len(list) != 21 {
		t.Errorf("%d tokens, %v", len(list), err)
	}

	// Without a file the entry is printed.
	_, stdout, stderr = program(t, nil, "token", "create", "--name", "me", "--role", "admin")
	_, entry, _ := strings.Cut(stderr, "\n")
	entry, _, _ = strings.Cut(entry, "\n")
	list, err = config.ParseTokens("stderr", []byte(entry))
	if err != nil || list[0].SHA256 != sha256.Sum256([]byte(strings.TrimSpace(stdout))) {
		t.Errorf("%v: %s", err, stderr)
	}
	_, stdout, stderr = program(t, nil, "token", "create", "--name", "me", "--role", "admin", "-o", "json")
	if made := decodeJSON[createdToken](t, stdout); made.Token == "" || made.Role != api.Admin || stderr != "" {
		t.Errorf("%+v %q", made, stderr)
	}

	broken := filepath.Join(t.TempDir(), "broken.yaml")
	put(t, broken, "- {name: x}\n")
	for args, want := range map[string]int{
		"token create --name ci":                                   exitUsage,
		"token create --role viewer":                               exitUsage,
		"token create --name ci --role root":                       exitUsage,
		"token create --name a/b --role viewer":                    exitUsage,
		"token create --name ci --role viewer --expires soon":      exitUsage,
		"token create --name ci --role viewer --expires 0s":        exitUsage,
		"token create --name ci --role viewer --file " + broken:    exitUsage,
		"token create --name ci --role viewer --file /none/at/all": exitFailed,
		"token list --file " + broken:                              exitUsage,
		"token list --file /none/at/all":                           exitUsage,
	} {
		if code, stdout, stderr := program(t, nil, strings.Fields(args)...); code != want || stdout != "" || stderr == "" {
			t.Errorf("%s: exit code %d, want %d: %q %q", args, code, want, stdout, stderr)
		}
	}
}

func TestTokenList(t *testing.T) {
	folder := t.TempDir()
	_, a := api.NewToken("ci", api.Operator, time.Time{})
	_, b := api.NewToken("old", api.Admin, time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC))
	_, c := api.NewToken("hands", api.Worker, time.Time{})
	c.Pools = []string{"crm", "mail"}
	put(t, filepath.Join(folder, "tokens.yaml"), config.TokenLine(a)+"\n"+config.TokenLine(b)+"\n"+config.TokenLine(c)+"\n")
	file := filepath.Join(folder, "lockstep.yaml")
	put(t, file, "version: 1\nserver: {auth: {tokens_file: tokens.yaml}}\njobs: {a: {command: [echo]}}\n")
	code, stdout, stderr := program(t, nil, "token", "list", "-c", file)
	if code != exitFine || !strings.Contains(stdout, "ci      operator   -          valid ") || !strings.Contains(stdout, "hands   worker     crm,mail   valid ") || !strings.Contains(stdout, "old     admin      -          expired   2020-01-02 03:04:05") {
		t.Errorf("%d %s%s", code, stdout, stderr)
	}
	put(t, file, "version: 1\njobs: {a: {command: [echo]}}\n")
	if code, _, stderr := program(t, nil, "token", "list", "-c", file); code != exitUsage || !strings.Contains(stderr, "tokens_file") {
		t.Errorf("%d %s", code, stderr)
	}
}

// TestCommandsWithTokens: commands work with a token and a certificate, and without them their error has the advice.
// Writes, and refused ones, are in the audit.
func TestCommandsWithTokens(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	tokens, cert, key := filepath.Join(folder, "tokens.yaml"), filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem")
	selfSigned(t, cert, key, "one", time.Now().Add(time.Hour))
	secrets := map[string]string{}
	for _, role := range []string{"viewer", "operator", "admin"} {
		_, stdout, _ := program(t, nil, "token", "create", "--name", "my-"+role, "--role", role, "--file", tokens)
		secrets[role] = filepath.Join(folder, role)
		put(t, secrets[role], stdout)
	}
	st, err := store.Open(t.Context(), "sqlite", filepath.Join(folder, "test.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	if err := st.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	address, _ := startAPIWith(t, config.Server{Listen: "127.0.0.1:0", TokensFile: tokens, CertFile: cert, KeyFile: key},
		api.Backend{Store: st, Replica: idle{}, Audit: true})

	as := func(role string) []string {
		return []string{"LOCKSTEP_SERVER=https://" + address, "LOCKSTEP_CA_FILE=" + cert, "LOCKSTEP_API_TOKEN_FILE=" + secrets[role]}
	}
	for _, c := range []struct {
		environ []string
		args    string
		code    int
		says    string
	}{
		{as("viewer"), "jobs list", exitFine, ""},
		{as("viewer"), "pools pause nope", exitFailed, "this needs the role operator, and the token has the role viewer"},
		{as("operator"), "pools pause nope", exitFailed, "nope"},
		{as("operator"), "audit list", exitFailed, "this needs the role admin"},
		{as("viewer")[:2], "jobs list", exitFailed, "LOCKSTEP_API_TOKEN_FILE"},
		{append(as("viewer"), "LOCKSTEP_API_TOKEN="+strings.Repeat("b", 50)), "jobs list", exitFailed, "unknown token"},
		{[]string{as("viewer")[0], as("viewer")[2]}, "jobs list", exitFailed, "--ca-file"},
		{as("viewer"), "jobs list --server http://" + address, exitFailed, "--server https://" + address},
		{as("viewer"), "jobs list --ca-file " + key, exitUsage, "holds no certificate"},
		{as("viewer"), "jobs list --ca-file /none", exitUsage, "no such file"},
		{as("viewer"), "jobs list --server http://192.0.2.1:8080", exitUsage, "in plain text"},
		{[]string{"LOCKSTEP_API_TOKEN=hunter2 hunter2"}, "jobs list --server https://" + address, exitUsage, "not a token"},
	} {
		code, stdout, stderr := program(t, c.environ, strings.Fields(c.args)...)
		if code != c.code || !strings.Contains(stderr, c.says) || strings.Contains(stdout+stderr, "hunter2") || strings.Contains(stdout+stderr, strings.Repeat("b", 50)) {
			t.Errorf("%s: exit code %d, want %d: %s%s", c.args, code, c.code, stdout, stderr)
		}
	}

	code, stdout, stderr := program(t, as("admin"), "audit", "list", "-o", "json")
	rows := decodeJSON[[]wire.AuditEntry](t, stdout)
	if code != exitFine || len(rows) != 2 {
		t.Fatalf("%d %s%s", code, stdout, stderr)
	}
	for i, want := range []string{"my-operator operator 127.0.0.1 POST /pools/{name}/pause nope 404", "my-viewer viewer 127.0.0.1 POST /pools/{name}/pause nope 403"} {
		e := rows[i]
		if got := fmt.Sprint(e.Who, " ", e.Role, " ", e.Remote, " ", e.Action, " ", e.Object, " ", e.Status); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if _, stdout, _ := program(t, as("admin"), "audit", "list", "--limit", "1"); strings.Count(stdout, "\n") != 2 || !strings.Contains(stdout, "my-operator") {
		t.Error(stdout)
	}
}

// TestAuditListShowsWhatWasCounted: repeated refusals are one entry, with their number, and with the object if it is
// the same.
func TestAuditListShowsWhatWasCounted(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"items":[
			{"id":"3","at":"2026-03-01T08:00:00Z","who":"v","role":"viewer","action":"POST /jobs/{name}/run","status":403,"count":25},
			{"id":"2","at":"2026-03-01T08:00:00Z","who":"v","role":"viewer","action":"POST /jobs/{name}/run","object":"j","status":403,"count":7},
			{"id":"1","at":"2026-03-01T08:00:00Z","who":"v","role":"viewer","action":"POST /jobs/{name}/run","object":"k","status":403}]}`)
	}))
	defer server.Close()
	code, stdout, stderr := program(t, []string{"LOCKSTEP_SERVER=" + server.URL}, "audit", "list")
	var shown []string
	for line := range strings.Lines(stdout) {
		words := strings.Fields(line)
		shown = append(shown, strings.Join(words[max(0, len(words)-5):], " "))
	}
	want := []string{"OBJECT STATUS TASK TASKS REQUESTS", "(several) 403 - - 25", "j 403 - - 7", "k 403 - - 1"}
	if code != exitFine || !slices.Equal(shown, want) {
		t.Errorf("exit code %d, %q, want %q\n%s%s", code, shown, want, stdout, stderr)
	}
}

// TestTokensNeedTLS: a token goes to another machine over TLS only, unless --insecure allows it.
func TestTokensNeedTLS(t *testing.T) {
	for _, c := range []struct {
		server   string
		insecure bool
		fine     bool
		probe    string
	}{
		{"127.0.0.1:8080", false, true, "http://127.0.0.1:8080"},
		{"localhost:8080", false, true, "http://localhost:8080"},
		{"[::1]:8080", false, true, "http://[::1]:8080"},
		{"localhost", false, true, "http://localhost"},
		{"sched.example:8080", false, true, "https://sched.example:8080"},
		{"192.0.2.1", false, true, "https://192.0.2.1"},
		{"http://sched.example:8080", false, false, "http://sched.example:8080"},
		{"http://sched.example:8080", true, true, "http://sched.example:8080"},
		{"http://localhost.evil.example", false, false, "http://localhost.evil.example"},
		{"https://sched.example", false, true, "https://sched.example"},
	} {
		a := &app{serverFlag: c.server, insecure: c.insecure, environ: []string{"LOCKSTEP_API_TOKEN=t0ken"}}
		_, err := a.remote()
		if got := a.server(); got != c.probe || (err == nil) != c.fine {
			t.Errorf("%s: %s, %v", c.server, got, err)
		}
		if err != nil && strings.Contains(err.Error(), "t0ken") {
			t.Error(err)
		}
	}
	file := filepath.Join(t.TempDir(), "token")
	put(t, file, "t0ken\n")
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	var stderr strings.Builder
	a := &app{environ: []string{"LOCKSTEP_API_TOKEN_FILE=" + file}, stderr: &stderr}
	if token, err := a.token(); token != "t0ken" || err != nil || !strings.Contains(stderr.String(), "can be read by others (mode 0644)") {
		t.Errorf("%q %v %s", token, err, stderr.String())
	}
}

// TestValidateChecksServerFiles: validate finds what serve would refuse, and reports files that are missing here.
func TestValidateChecksServerFiles(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "lockstep.yaml")
	put(t, file, "version: 1\nserver: {auth: {tokens_file: tokens.yaml}}\njobs: {a: {command: [sh]}}\n")
	environ := []string{"PATH=" + os.Getenv("PATH")}
	if code, _, stderr := program(t, environ, "validate", file); code != exitFine || !strings.Contains(stderr, "tokens.yaml is not on this machine") {
		t.Errorf("%d %s", code, stderr)
	}
	if code, _, stderr := program(t, environ, "serve", "-c", file, "--listen", "127.0.0.1:0"); code != exitUsage || !strings.Contains(stderr, "token create --name") {
		t.Errorf("%d %s", code, stderr)
	}
	put(t, filepath.Join(folder, "tokens.yaml"), "- {name: a}\n")
	if code, _, stderr := program(t, environ, "validate", file); code != exitUsage || !strings.Contains(stderr, "tokens.yaml:1:3: [0]: has no role") {
		t.Errorf("%d %s", code, stderr)
	}
	_, token := api.NewToken("a", api.Viewer, time.Time{})
	put(t, filepath.Join(folder, "tokens.yaml"), config.TokenLine(token)+"\n")
	if code, _, stderr := program(t, environ, "validate", file); code != exitFine || stderr != "" {
		t.Errorf("%d %s", code, stderr)
	}
}

// TestServeNeedsLoopbackOrAuth: serve refuses an address that other machines can reach, from the file or the flag,
// before it listens or writes.
func TestServeNeedsLoopbackOrAuth(t *testing.T) {
	folder := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for text, listen := range map[string]string{
		"": "0.0.0.0:0",
		"server: {listen: \"127.0.0.1:0\", auth: {tokens_file: tokens.yaml}}\n": "[::]:0",
		"server: {listen: \"0.0.0.0:0\"}\n":                                     "",
	} {
		file := filepath.Join(folder, "lockstep.yaml")
		put(t, file, "version: 1\n"+text+"jobs: {a: {command: [sh]}}\n")
		args := []string{"serve", "-c", file}
		if listen != "" {
			args = append(args, "--listen", listen)
		}
		var out, errs strings.Builder
		a := &app{stdin: strings.NewReader(""), stdout: &out, stderr: &errs, environ: []string{"PATH=" + os.Getenv("PATH")}, now: time.Now}
		if code := a.execute(ctx, args); code != exitUsage || !strings.Contains(errs.String(), "is not a loopback address") || strings.Contains(errs.String(), "listening") {
			t.Errorf("%v with %q: exit code %d: %s", args, text, code, &errs)
		}
	}
	if names, err := filepath.Glob(filepath.Join(folder, "*")); err != nil || len(names) != 1 {
		t.Errorf("the folder has %v, %v", names, err)
	}
}
