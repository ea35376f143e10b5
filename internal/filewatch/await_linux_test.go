package filewatch

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// Await ends with a write, also with one between the last look and itself, and with the removal; else with its time or its context.
func TestAwait(t *testing.T) {
	name := filepath.Join(t.TempDir(), "db-wal")
	f := NewFile(name)
	if f.Written(); f.Await(t.Context(), time.Minute) {
		t.Error("it watches a file that does not exist")
	}
	log, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	write := func() {
		if _, err := log.WriteString("x"); err != nil {
			t.Error(err)
		}
	}
	await := func(ctx context.Context, most time.Duration) time.Duration {
		t.Helper()
		began := time.Now()
		if !f.Await(ctx, most) {
			t.Error("it does not watch")
		}
		return time.Since(began)
	}
	quiet := func() { // no write is so young that another one might leave the same time
		for f.Written() {
			time.Sleep(tick)
		}
	}

	const soon, late = 30 * time.Millisecond, 10 * time.Second
	write()
	if took := await(t.Context(), time.Hour); took > late {
		t.Errorf("it ended %v after a write before it", took)
	}
	quiet()
	if took := await(t.Context(), soon); took < soon {
		t.Errorf("without a write it ended after %v", took)
	}
	over, stop := context.WithTimeout(t.Context(), soon)
	defer stop()
	if took := await(over, time.Hour); took < soon || took > late {
		t.Errorf("its context ended after %v, and it after %v", soon, took)
	}
	for _, c := range []struct {
		what string
		do   func()
	}{
		{"a write", write},
		{"the removal", func() { _ = os.Remove(name) }},
	} {
		quiet()
		time.AfterFunc(soon, c.do)
		if took := await(t.Context(), time.Hour); took > late || !f.Written() {
			t.Errorf("%s after %v ended it after %v", c.what, soon, took)
		}
	}
}

// In a bubble of synctest time passes only while every goroutine waits for something within it.
func TestAwaitInABubble(t *testing.T) {
	name := filepath.Join(t.TempDir(), "db-wal")
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		f := NewFile(name)
		if f.Written(); f.Await(t.Context(), time.Minute) {
			t.Error("it watches")
		}
	})
}
