package warden

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/process"

	"github.com/lockstep-scheduler/lockstep/test/wait"
)

// TestMain is a warden where it is called one.
func TestMain(m *testing.M) {
	if os.Args[0] == process.Warden {
		if err := Run(slog.New(slog.DiscardHandler)); err != nil {
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// sleeper is a warden and a command that it has started.
func sleeper(t *testing.T) (*Warden, *Attempt) {
	t.Helper()
	w, err := Spawn()
	if err != nil {
		t.Fatal(err)
	}
	a, err := w.Start(Command{Program: "/bin/sleep", Argv: [][]byte{[]byte("sleep"), []byte("300")}}, nil, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	return w, a
}

// wantDied holds that the warden is given up soon, and with it all that it has started.
func wantDied(t *testing.T, w *Warden, a *Attempt) {
	t.Helper()
	select {
	case <-a.Ended():
	case <-time.After(15 * time.Second):
		t.Fatal("the command goes on")
	}
	if end := a.End(); !errors.Is(end.Err, ErrDied) && end.Why != Alone {
		t.Errorf("it ended with %+v", end)
	}
	wait.Until(t, "the warden is gone", w.Gone)
	for _, pid := range []int{a.Group(), w.pid} {
		if p, alive := listProcesses()[pid]; alive {
			t.Errorf("%+v is still there", p)
		}
	}
	if _, err := w.Start(Command{Program: "/bin/true", Argv: [][]byte{nil}}, nil, os.Stderr); !errors.Is(err, ErrGone) {
		t.Errorf("the next command: %v, want ErrGone", err)
	}
}

func TestAWardenThatCannotUnderstand(t *testing.T) {
	for _, message := range []string{"\xff\xff\xff\xff", "\x00\x00\x00\x03[1]"} {
		w, a := sleeper(t)
		if err := w.stream.send([]byte(message)); err != nil {
			t.Fatal(err)
		}
		wantDied(t, w, a)
	}
	w, a := sleeper(t)
	noFiles, err := frame(order{ID: 7, Start: &Command{Program: "/bin/true", Argv: [][]byte{nil}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.stream.send(noFiles); err != nil {
		t.Fatal(err)
	}
	wantDied(t, w, a)
}

func TestAFrozenWardenIsGivenUp(t *testing.T) {
	w, a := sleeper(t)
	w.stream.patient = 300 * time.Millisecond
	if err := syscall.Kill(w.pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Start(Command{Program: "/bin/true", Argv: [][]byte{nil}}, nil, os.Stderr); !errors.Is(err, ErrDied) {
		t.Errorf("the next command: %v, want ErrDied: nobody knows whether it was started", err)
	}
	wantDied(t, w, a)
}

// What is as large as a command line may be, and larger, gets through or is refused.
func TestLargeCommands(t *testing.T) {
	w, a := sleeper(t)
	defer a.Stop(0)
	for _, size := range []int{100_000, 3 << 20} {
		r, out, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		large, err := w.Start(Command{Program: "/bin/echo", Argv: [][]byte{nil, []byte(strings.Repeat("x", size))}}, nil, out)
		out.Close()
		text, _ := io.ReadAll(r)
		r.Close()
		if size > 1<<20 {
			if !errors.Is(err, syscall.E2BIG) {
				t.Errorf("%d bytes: %v", size, err)
			}
			continue
		}
		if err != nil || len(text) != size+1 {
			t.Fatalf("%d bytes: %d came back, %v", size, len(text), err)
		}
		<-large.Ended()
	}
}
