package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/config"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

// withCertificate is a folder with a configuration whose certificate expires at the given time.
func withCertificate(t *testing.T, ends time.Time) (folder, file string) {
	t.Helper()
	folder = t.TempDir()
	selfSigned(t, filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key"), "one", ends)
	file = filepath.Join(folder, "lockstep.yaml")
	put(t, file, "version: 1\njobs: {a: {command: [echo]}}\nserver: {listen: \"127.0.0.1:0\", tls: {cert_file: tls.crt, key_file: tls.key}}\n")
	return folder, file
}

// A certificate that is expired, or expires within two weeks, is a warning of validate and doctor.
func TestACertificateThatEnds(t *testing.T) {
	t.Parallel()
	for left, want := range map[time.Duration]string{
		-time.Minute:        "tls.crt expired at ",
		13 * 24 * time.Hour: "tls.crt expires at ",
		15 * 24 * time.Hour: "",
	} {
		folder, file := withCertificate(t, time.Now().Add(left))
		for _, output := range []string{"table", "json"} {
			got := call(t, nil, "validate", file, "-o", output)
			if got.code != exitFine || strings.Contains(got.stderr, "warning: server.tls: the certificate "+filepath.Join(folder, "tls.crt")+" expire") != (want != "") ||
				output == "json" && !strings.Contains(got.stdout, want) || want == "" && strings.Contains(got.stdout+got.stderr, "expire") {
				t.Errorf("%v left: %+v", left, got)
			}
		}
		all, _ := runDoctor(t, folder, "server: {listen: \"127.0.0.1:0\", tls: {cert_file: tls.crt, key_file: tls.key}}")
		if want != "" {
			wantFinding(t, all, "warning server: server.tls: the certificate "+folder+"/"+want)
		} else if text := strings.Join(all, "\n"); strings.Contains(text, "expire") {
			t.Error(text)
		}
	}
}

// The log warns once a day, when it expires, and when it is loaded; not after it was renewed.
func TestTheLogWarnsOfACertificate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		folder, _ := withCertificate(t, time.Now().Add(15*24*time.Hour+time.Hour))
		cert, key := filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key")
		log := &logged{}
		d, err := newAPIServer(config.Server{Listen: "127.0.0.1:0", CertFile: cert, KeyFile: key}, slog.New(slog.NewTextHandler(log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		files := d.files
		d.files = nil // else they are looked at each second
		ctx, stop := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- d.serve(ctx, &idleListener{closed: make(chan struct{})}, http.NotFoundHandler()) }()
		after := func(pause time.Duration, soon, expired int) {
			t.Helper()
			time.Sleep(pause)
			synctest.Wait()
			if a, b := log.count("no restart is needed\" why=\"expires at 2000-01-16T01:00:00Z"), log.count("no restart is needed\" why=\"expired at 2000-01-16T01:00:00Z"); a != soon || b != expired {
				t.Errorf("%v: %d warnings that it ends, %d that it has ended, want %d and %d", time.Now().UTC(), a, b, soon, expired)
			}
		}
		after(24*time.Hour-time.Minute, 0, 0)
		after(25*time.Hour, 1, 0) // two days: less than two weeks are left
		after(13*24*time.Hour, 14, 0)
		after(time.Minute, 14, 1) // 1 h after midnight
		after(48*time.Hour, 14, 3)
		for pair, more := range map[string]int{"another that has ended": 1, "renewed": 0} {
			ends := time.Now().Add(-time.Minute)
			if more == 0 {
				ends = time.Now().Add(90 * 24 * time.Hour)
			}
			selfSigned(t, cert, key, pair, ends)
			before := log.count("level=WARN")
			files[0].poll()
			if now := log.count("level=WARN"); now != before+more {
				t.Errorf("%s: %d warnings at its load", pair, now-before)
			}
		}
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

// idleListener is a listener that gets no connections.
type idleListener struct {
	closed chan struct{}
	once   sync.Once
}

func (l *idleListener) Accept() (net.Conn, error) {
	<-l.closed
	return nil, net.ErrClosed
}

func (l *idleListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *idleListener) Addr() net.Addr { return &net.TCPAddr{} }

// A replica warns at its start, and its metrics have the end.
func TestAReplicaWithAnExpiredCertificate(t *testing.T) {
	ends := time.Now().Add(-time.Minute)
	_, file := withCertificate(t, ends)
	log := &logged{}
	a := &app{stdin: strings.NewReader(""), stdout: &bytes.Buffer{}, stderr: log, now: time.Now}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	go func() { ended <- a.execute(ctx, []string{"serve", "-c", file}) }()
	defer func() {
		stop()
		if code := <-ended; code != exitFine {
			t.Errorf("exit code %d: %s", code, log.text.String())
		}
	}()
	await.Until(t, "it listens", func() bool { return log.has(`"msg":"listening"`) })
	if !log.has(`"level":"WARN","msg":"the API's certificate is not valid, or expires soon: replace the file, no restart is needed","why":"expired at `) {
		t.Error("the log does not warn")
	}
	log.mu.Lock()
	url := regexp.MustCompile(`https://[^"]+`).FindString(log.text.String())
	log.mu.Unlock()
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	code, body := status(t, c, url+"/metrics", "")
	_, value, _ := strings.Cut(body, "\nlockstep_certificate_expiry_timestamp_seconds ")
	value, _, _ = strings.Cut(value, "\n")
	if got, err := strconv.ParseFloat(value, 64); code != http.StatusOK || err != nil || int64(got) != ends.Unix() {
		t.Errorf("%d, %q, want %d", code, value, ends.Unix())
	}
}
