package httphandler_test

import (
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/jobs/httphandler"
)

// The certificates of the machine are read when the first handler for https is made: when it runs, no descriptors may be
// left for them. A process reads them once, so this is about one of its own.
func TestCertificatesAreReadInTime(t *testing.T) {
	file := os.Getenv("LOCKSTEP_TEST_CERTIFICATES")
	if file == "" {
		dir := t.TempDir()
		file = filepath.Join(dir, "certificates")
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), "LOCKSTEP_TEST_CERTIFICATES="+file, "SSL_CERT_FILE="+file, "SSL_CERT_DIR="+filepath.Join(dir, "none"))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	s := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer s.Close()
	handler(t, httphandler.Request{URL: strings.Replace(s.URL, "https", "http", 1)}) // needs none
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := os.WriteFile(file, certificate, 0o600); err != nil {
		t.Fatal(err)
	}
	h := handler(t, httphandler.Request{URL: s.URL})
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := h.Run(t.Context(), task, io.Discard); err != nil {
		t.Error(err)
	}
}
