package main

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os"
	"testing"
)

// The log is text on a terminal, else JSON.
func TestLogger(t *testing.T) {
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	if _, text := newLogger(terminal).Handler().(*slog.TextHandler); !text {
		t.Error("no text at a terminal")
	}
	file, err := os.Create(t.TempDir() + "/log")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, isJSON := newLogger(file).Handler().(*slog.JSONHandler); !isJSON {
		t.Error("no JSON in a file")
	}
	var out bytes.Buffer
	newLogger(&out).Info("hello", "a", 1)
	var line struct {
		Msg string
		A   int
	}
	if err := json.Unmarshal(out.Bytes(), &line); err != nil || line.Msg != "hello" || line.A != 1 {
		t.Errorf("%v: %s", err, &out)
	}
}
