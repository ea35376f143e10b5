package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
	"golang.org/x/sys/unix"
)

// terminal opens one. What is written to it can be read with said, as far as its program end would get it.
func terminal(t *testing.T) (program *os.File, said func() string) {
	t.Helper()
	controller, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	fd := int(controller.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan string, 1)
	go func() {
		text, err := io.ReadAll(controller)
		if err != nil && !errors.Is(err, unix.EIO) { // so it says that the other end is closed
			t.Error(err)
		}
		got <- string(text)
	}()
	t.Cleanup(func() { program.Close(); controller.Close() })
	return program, func() string {
		program.Close()
		return strings.ReplaceAll(<-got, "\r\n", "\n") // a terminal makes two of one
	}
}

// A terminal shows escapes of a task's output, a reason phrase, JSON and YAML; the latter two stay valid.
func TestOnATerminal(t *testing.T) {
	t.Parallel()
	valid := strings.ToValidUTF8(hostile, "") // all that JSON can say
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/logs"):
			fmt.Fprint(w, hostile)
			return
		case r.URL.Path == "/api/v1/jobs":
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(map[string]any{"items": []map[string]any{
				{"name": "a", "description": valid, "labels": map[string]string{valid: valid}}, {"name": "b", "description": "\u202eb\nc"},
			}})
			return
		}
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprintf(conn, "HTTP/1.1 418 %s\r\nContent-Length: 0\r\n\r\n", strings.ReplaceAll(hostile, "\x00", ""))
	}))
	t.Cleanup(server.Close)
	shown := func(args string) string {
		program, said := terminal(t)
		a := &app{stdin: strings.NewReader(""), stdout: program, stderr: program, environ: []string{"LOCKSTEP_SERVER=" + server.URL}, now: time.Now}
		_ = a.execute(t.Context(), strings.Fields(args))
		text := said()
		wantHarmless(t, args, text)
		return text
	}
	for _, args := range []string{"tasks logs 1", "tasks get 1", "healthcheck"} {
		if text := shown(args); !strings.Contains(text, `\x1b]0;title`) {
			t.Errorf("%s: %q", args, text)
		}
	}
	for args, decode := range map[string]func([]byte, any) error{"jobs list -o json": json.Unmarshal, "jobs list -o yaml": yaml.Unmarshal} {
		text := shown(args)
		var list []struct {
			Description string
			Labels      map[string]string
		}
		if err := decode([]byte(text), &list); err != nil || len(list) != 2 || list[0].Description != valid || list[0].Labels[valid] != valid || list[1].Description != "\u202eb\nc" {
			t.Errorf("%s: %v: %q", args, err, text)
		}
	}
}
