package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/api"
	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/config"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

// selfSigned writes a certificate for this machine and its key.
func selfSigned(t *testing.T, certFile, keyFile, name string, ends time.Time) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: ends, IsCA: true, BasicConstraintsValid: true,
		DNSNames: []string{"localhost", "lockstep.test"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	put(t, keyFile, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})))
	put(t, certFile, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})))
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// logged is a log that can be read while it is written.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) has(part string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), part)
}

func (l *logged) count(part string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), part)
}

// startAPI serves the API of an idle replica with the settings c.
func startAPI(t *testing.T, c config.Server) (address string, log *logged) {
	t.Helper()
	return startAPIWith(t, c, api.Backend{Store: ledger.Sides{API: empty{}}, Replica: idle{}})
}

func startAPIWith(t *testing.T, c config.Server, b api.Backend) (address string, log *logged) {
	t.Helper()
	log = &logged{}
	logger := slog.New(slog.NewTextHandler(log, nil))
	d, err := newAPIServer(c, logger)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	options := api.Options{Logger: logger, Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "metrics") })}
	d.configure(&options)
	h := api.New(b, options)
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- d.serve(ctx, l, h) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String(), log
}

// empty is a store that gets no calls.
type empty struct{ ledger.API }

// idle is a replica that only reports health.
type idle struct{ api.Replica }

func (idle) Health() []wire.Condition { return nil }
func (idle) Set() jobs.Set            { return jobs.Set{} }
func (idle) Loaded() bool             { return true }

// status is the response to a read by a viewer.
func status(t *testing.T, c *http.Client, url, token string) (code int, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := c.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

// TestTokensAreReadAgain: a changed file applies within seconds, without a restart. An unusable file changes nothing
// and is reported.
func TestTokensAreReadAgain(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "tokens.yaml")
	first, a := api.NewToken("a", api.Viewer, time.Time{})
	second, b := api.NewToken("b", api.Viewer, time.Time{})
	put(t, file, config.TokenLine(a)+"\n")
	address, log := startAPI(t, config.Server{Listen: "127.0.0.1:0", TokensFile: file})
	c := &http.Client{}
	url := "http://" + address
	is := func(token string, want int) func() bool {
		return func() bool { code, _ := status(t, c, url+"/metrics", token); return code == want }
	}
	if !is(first, 200)() || !is(second, 401)() || !is("", 401)() {
		t.Fatal("at the start")
	}
	put(t, file, config.TokenLine(a)+"\n"+config.TokenLine(b)+"\n") // both, for rotation
	await.Until(t, "the second token is good", is(second, 200))
	if !is(first, 200)() {
		t.Error("the first one is not good any more")
	}
	put(t, file, config.TokenLine(b)+"\n")
	await.Until(t, "the first token is revoked", is(first, 401))

	put(t, file, "- {name: b}\n")
	await.Until(t, "readiness reports the file", func() bool {
		code, body := status(t, c, url+"/readyz", second)
		return code == 200 && strings.Contains(body, `"name":"tokens"`) && strings.Contains(body, "has no role")
	})
	if !log.has("has no role") || !is(second, 200)() {
		t.Error("the log lacks the error, or the previous tokens are refused")
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "readiness reports the missing file", func() bool {
		_, body := status(t, c, url+"/readyz", second)
		return strings.Contains(body, "no such file")
	})
	put(t, file, "# none\n")
	await.Until(t, "the last token is revoked", is(second, 401))
	if !log.has("all previous entries are revoked") {
		t.Error("the log does not report the revocation")
	}
	put(t, file, config.TokenLine(a)+"\n")
	await.Until(t, "a good file is taken", is(first, 200))
	if _, body := status(t, c, url+"/readyz", first); strings.Contains(body, `"name":"tokens"`) || !strings.Contains(body, "this machine only, tokens: 1") {
		t.Error(body)
	}
	if log.has(first) || log.has(second) || log.has("sha256: ") {
		t.Error("the log has a token")
	}
}

// TestFileWithoutTokensRevokesAll: at the second poll in a row, since an editor may empty the file before it writes it.
func TestFileWithoutTokensRevokesAll(t *testing.T) {
	t.Parallel()
	secret, a := api.NewToken("a", api.Viewer, time.Time{})
	const taken, held = "all previous entries are revoked", "the previous content still applies"
	for _, none := range []string{"", "# none\n", "[]\n", " # - {name: a}\n", "---\n", "\ufeff"} {
		file, log := filepath.Join(t.TempDir(), "tokens.yaml"), &logged{}
		put(t, file, config.TokenLine(a)+"\n")
		d, err := newAPIServer(config.Server{Listen: "127.0.0.1:0", TokensFile: file}, slog.New(slog.NewTextHandler(log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		// Each step is a poll; told is the number of errors in the log after it.
		poll := func(text string, good bool, detail string, told int) {
			t.Helper()
			put(t, file, text)
			d.files[0].poll()
			if _, err := d.tokens.Identify(secret); (err == nil) != good {
				t.Errorf("%q: %v", none, err)
			}
			said := ""
			for _, c := range d.conditions() {
				if c.Name == "tokens" {
					said = c.Detail
				}
			}
			if !strings.HasPrefix(said, detail) || said == "" != (detail == "") || log.count("level=ERROR") != told {
				t.Errorf("%q: the condition says %q, want %q; %d errors, want %d: %s", none, said, detail, log.count("level=ERROR"), told, &log.text)
			}
		}
		one, broken := config.TokenLine(a)+"\n", "- {name: a}\n"
		poll(none, true, "", 0)
		poll(one, true, "", 0)
		poll(none, true, "", 0)
		poll(none, false, taken+": "+file, 1)
		poll(none, false, taken, 1)
		poll(broken, false, taken+": "+file+":1:3: [0]: has no role", 2)
		poll(one, true, "", 2)
		poll(broken, true, held, 3)
		poll(none, true, held, 3)
		poll(none, false, taken, 4)
		poll(one, true, "", 4)
		if log.count("has no entries; "+taken) != 2 || log.count("cannot be used; "+taken) != 1 || log.count("cannot be used; "+held) != 1 {
			t.Error(&log.text)
		}
		put(t, file, none)
		if _, err := newAPIServer(config.Server{Listen: "127.0.0.1:0", TokensFile: file}, slog.New(slog.DiscardHandler)); err == nil {
			t.Errorf("%q: a replica starts without tokens", none)
		}
	}
}

// TestTokensWithWrongMode: an unusable file is polled until it is usable, also if its content stays. Otherwise a token
// that was removed in it would stay valid until a restart.
func TestTokensWithWrongMode(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "tokens.yaml")
	revoked, a := api.NewToken("a", api.Viewer, time.Time{})
	stays, b := api.NewToken("b", api.Viewer, time.Time{})
	put(t, file, config.TokenLine(a)+"\n"+config.TokenLine(b)+"\n")
	address, log := startAPI(t, config.Server{Listen: "127.0.0.1:0", TokensFile: file})
	is := func(token string, want int, parts ...string) func() bool {
		return func() bool {
			code, body := status(t, &http.Client{}, "http://"+address+"/readyz", token)
			for _, part := range parts {
				if !strings.Contains(body, part) {
					return false
				}
			}
			if want != 0 {
				code, _ = status(t, &http.Client{}, "http://"+address+"/metrics", token)
			}
			return want == 0 && code == 200 || code == want
		}
	}
	mode := func(m os.FileMode) {
		t.Helper()
		if err := os.Chmod(file, m); err != nil {
			t.Fatal(err)
		}
	}
	if !is(revoked, 200)() || !is(stays, 200)() {
		t.Fatal("at the start")
	}

	mode(0o664)
	put(t, file, config.TokenLine(b)+"\n") // keeps the mode
	await.Until(t, "readiness reports the mode", is(stays, 0, `"name":"tokens"`, "the previous content still applies", "can be written by others (mode 0664)", "chmod 600 "))
	if !is(revoked, 200)() || !is(stays, 200)() {
		t.Error("the previous tokens are refused")
	}
	mode(0o666)
	await.Until(t, "the log reports the change", func() bool { return log.has("mode 0666") })
	time.Sleep(2 * reloadInterval) // some looks that see nothing new
	if n := log.count("cannot be used"); n != 2 {
		t.Errorf("the log has the two errors %d times", n)
	}
	mode(0o600)
	await.Until(t, "the removed token is refused", is(revoked, 401))
	if !is(stays, 200)() {
		t.Error("the other token is refused, too")
	}
	if _, body := status(t, &http.Client{}, "http://"+address+"/readyz", stays); strings.Contains(body, `"name":"tokens"`) {
		t.Error(body)
	}

	mode(0o606) // nothing else changes
	await.Until(t, "readiness reports a mode alone", is(stays, 0, "can be written by others (mode 0606)"))
	mode(0o600)
	await.Until(t, "it is fine again", func() bool { return !is(stays, 0, `"name":"tokens"`)() })
}

// TestCertificateIsReadAgain: new connections get the new certificate; an unusable one changes nothing.
func TestCertificateIsReadAgain(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	cert, key := filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem")
	selfSigned(t, cert, key, "one", time.Now().Add(90*24*time.Hour))
	address, log := startAPI(t, config.Server{Listen: "127.0.0.1:0", CertFile: cert, KeyFile: key})
	name := func() string {
		conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			return err.Error()
		}
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].Subject.CommonName
	}
	if got := name(); got != "one" {
		t.Fatal(got)
	}
	if err := os.Chmod(key, 0o666); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the log reports the key's mode", func() bool { return log.has("can be written by others (mode 0666)") })
	selfSigned(t, cert, key, "repaired", time.Now().Add(time.Hour))
	if err := os.Chmod(key, 0o600); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the certificate with the mode repaired is shown", func() bool { return name() == "repaired" })
	put(t, key, "half of a key")
	await.Until(t, "the log reports the key", func() bool { return log.has("failed to find any PEM data in key input") })
	if got := name(); got != "repaired" {
		t.Error(got)
	}
	selfSigned(t, cert, key, "two", time.Now().Add(time.Hour))
	await.Until(t, "the new certificate is shown", func() bool { return name() == "two" })

	pool := x509.NewCertPool()
	pem, _ := os.ReadFile(cert)
	pool.AppendCertsFromPEM(pem)
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true, ForceAttemptHTTP2: true}}
	code, body := status(t, c, "https://"+address+"/readyz", "")
	if code != 200 || !strings.Contains(body, "expires at") || strings.Contains(body, "still holds") {
		t.Errorf("%d %s", code, body)
	}

	told := log.count("cannot be used")
	ready := func() string { _, body := status(t, c, "https://"+address+"/readyz", ""); return body }
	if err := os.Chmod(key, 0o666); err != nil { // nothing else changes
		t.Fatal(err)
	}
	await.Until(t, "readiness reports a mode alone", func() bool {
		for line := range strings.SplitSeq(ready(), "},") {
			if strings.Contains(line, `"name":"certificate"`) && strings.Contains(line, "the previous content still applies") {
				return true
			}
		}
		return false
	})
	time.Sleep(2 * reloadInterval) // some looks that see nothing new
	if n := log.count("cannot be used") - told; n != 1 || name() != "two" {
		t.Errorf("the log has the error %d times; served: %s", n, name())
	}
	if err := os.Chmod(key, 0o600); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "it is fine again", func() bool {
		body := ready()
		return strings.Contains(body, "expires at") && !strings.Contains(body, "still holds")
	})
	if name() != "two" {
		t.Errorf("%s is shown", name())
	}

	if _, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS11}); err == nil {
		t.Error("TLS 1.1 is spoken")
	}
	if code, body := status(t, &http.Client{}, "http://"+address+"/healthz", ""); code != http.StatusBadRequest {
		t.Errorf("plain HTTP: %d %s", code, body)
	}
}

// TestUnusableFilesStopStart: without usable files nothing is served.
func TestUnusableFilesStopStart(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "tokens.yaml")
	put(t, file, "- {name: a, role: admin, sha256: hunter2}\n")
	cert, key := filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem")
	selfSigned(t, cert, filepath.Join(folder, "other.pem"), "one", time.Now().Add(time.Hour))
	selfSigned(t, filepath.Join(folder, "other cert.pem"), key, "two", time.Now().Add(time.Hour))
	for want, c := range map[string]config.Server{
		file + ":1:34: [0].sha256: is not a SHA-256":    {TokensFile: file},
		"scheduler token create --name":                 {TokensFile: filepath.Join(folder, "none")},
		"server.tls: " + cert + " and " + key + ": tls": {CertFile: cert, KeyFile: key},
		"no such file": {CertFile: filepath.Join(folder, "none"), KeyFile: key},
	} {
		_, err := newAPIServer(c, slog.New(slog.DiscardHandler))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestInsecureIsReported: in the log at each start, and in readiness.
func TestInsecureIsReported(t *testing.T) {
	var log logged
	d, err := newAPIServer(config.Server{Listen: "0.0.0.0:8080", Insecure: true}, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	all := d.conditions()
	if len(all) != 1 || all[0].Name != "access" || !all[0].Ready || !strings.HasPrefix(all[0].Detail, "insecure: neither") {
		t.Errorf("%+v", all)
	}
	if !log.has("level=WARN") || !log.has("msg=insecure why=\"neither server.auth nor server.tls") {
		t.Errorf("the log has no line")
	}
}
