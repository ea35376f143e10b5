package scenarios

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// orderOfHolder is the variable that makes this test binary a holder.
const orderOfHolder = "LOCKSTEP_SCENARIO_HOLDER"

// order is what a holder is told.
type order struct{ Backend, Address, Namespace string }

// shortTTL is that of holders that die: longer than a busy machine delays a renewal.
const shortTTL = 3 * time.Second

// heldKeys are the keys of a holder by kind, with what excludes all of them.
func heldKeys(s site) map[string][]locks.Request {
	held := map[string][]locks.Request{
		exclusive.name: {{Key: "exclusive"}},
		reentrant.name: {{Key: "reentrant", Owner: "me"}},
		several.name:   {{Key: "several-1"}, {Key: "several-2"}},
	}
	if s.caps.Shared {
		held[shared.name] = []locks.Request{{Key: "shared", Mode: locks.Shared}}
	}
	if s.caps.Limit {
		held[semaphore.name] = []locks.Request{{Key: "semaphore", Limit: limit}}
	}
	return held
}

// hold is the other process. It acquires keys of each kind, and says so, a line for each key:
//
//	held KEY TOKEN
//	lost KEY         when it gets the signal
//	write KEY TOKEN  for each line that it reads: it writes as if it had been stopped after its last check
func hold(text string) int {
	if err := holdUntilEnd(text); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func holdUntilEnd(text string) error {
	ctx := context.Background()
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	for _, b := range backends {
		if b.name != o.Backend {
			continue
		}
		d, _, err := b.connect(o.Address)
		if err != nil {
			return err
		}
		l, err := locks.New(d, locks.Options{Namespace: o.Namespace, Owner: "holder", TTL: shortTTL})
		if err != nil {
			return err
		}
		var requests []locks.Request
		for _, rs := range heldKeys(site{caps: d.Caps()}) {
			requests = append(requests, rs...)
		}
		leases, err := l.Acquire(ctx, requests...)
		if err != nil {
			return err
		}
		again, err := l.Acquire(ctx, locks.Request{Key: "reentrant", Owner: "me"})
		if err != nil {
			return err
		}
		out := make(chan string)
		for _, lease := range append(leases, again...) {
			fmt.Println("held", lease.Key(), lease.Token())
			context.AfterFunc(lease.Context(), func() { out <- "lost " + lease.Key() })
		}
		go func() {
			for line := range out {
				fmt.Println(line)
			}
		}()
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			for _, lease := range leases {
				out <- fmt.Sprint("write ", lease.Key(), " ", lease.Token())
			}
		}
		return nil
	}
	return fmt.Errorf("no backend %q", o.Backend)
}

// holder is the process, seen from the test.
type holder struct {
	*exec.Cmd
	said  chan []string // the words of each line
	write func()
}

// newHolder starts the process and returns once it holds all its keys.
func newHolder(t *testing.T, s site) *holder {
	t.Helper()
	text, err := json.Marshal(order{s.name, s.address, s.namespace})
	if err != nil {
		t.Fatal(err)
	}
	h := &holder{Cmd: exec.Command(os.Args[0]), said: make(chan []string, 64)}
	h.Env = append(os.Environ(), orderOfHolder+"="+string(text))
	h.Stderr = os.Stderr
	in, err := h.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := h.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := servers.Start(h.Cmd); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(h.said)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			h.said <- strings.Fields(lines.Text())
		}
	}()
	t.Cleanup(func() {
		_ = h.Process.Kill()
		for range h.said {
		}
		<-done
		_ = h.Wait()
	})
	h.write = func() { _, _ = fmt.Fprintln(in, "write") }
	n := 1 // the second lease of the reentrant key
	for _, rs := range heldKeys(s) {
		n += len(rs)
	}
	for range n {
		if words := h.next(t); words[0] != "held" {
			t.Fatalf("the holder says %v", words)
		}
	}
	return h
}

// next is what the holder says next.
func (h *holder) next(t *testing.T) []string {
	t.Helper()
	select {
	case words, ok := <-h.said:
		if !ok || len(words) == 0 {
			t.Fatal("the holder has ended")
		}
		return words
	case <-time.After(time.Minute):
		t.Fatal("the holder says nothing")
	}
	return nil
}

// obtained is the end of a wait.
type obtained struct {
	leases []*locks.Lease
	err    error
	at     time.Time
}

// waitForHeld waits for the keys of a holder, of each kind apart. It asks for them as exclusive ones, which no holder shares.
func waitForHeld(t *testing.T, s site, l *locks.Locker) map[string]chan obtained {
	done := map[string]chan obtained{}
	for name, requests := range heldKeys(s) {
		alone := make([]locks.Request, len(requests))
		for i, r := range requests {
			alone[i] = locks.Request{Key: r.Key}
		}
		c := make(chan obtained, 1)
		done[name] = c
		go func() {
			leases, err := l.Acquire(t.Context(), alone...)
			c <- obtained{leases, err, time.Now()}
		}()
	}
	return done
}
