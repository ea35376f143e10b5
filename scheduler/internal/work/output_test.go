package work

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/membership"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
)

func TestOutputKeepsHeadAndTail(t *testing.T) {
	const limit = 64
	rnd := rand.New(rand.NewPCG(1, 2))
	write := func(o *output, p []byte) {
		if n, err := o.Write(p); n != len(p) || err != nil {
			t.Fatalf("of %d bytes it takes %d: %v", len(p), n, err)
		}
	}
	for size := range 400 {
		var all bytes.Buffer
		for i := 0; all.Len() < size; i++ {
			fmt.Fprintf(&all, "%d,", i)
		}
		o := newOutput(limit)
		for rest := all.Bytes(); len(rest) > 0; {
			n := min(len(rest), 1+rnd.IntN(90))
			write(o, rest[:n])
			rest = rest[n:]
		}
		got := string(o.Bytes())
		if all.Len() <= limit {
			if got != all.String() {
				t.Fatalf("size %d: %q, want %q", size, got, all.String())
			}
			continue
		}
		text := all.String()
		want := fmt.Sprintf("%s\n… %d bytes left out …\n%s", text[:limit/2], len(text)-limit, text[len(text)-limit/2:])
		if got != want {
			t.Fatalf("size %d:\n%q\nwant\n%q", size, got, want)
		}
	}
}

func TestOutputIsBounded(t *testing.T) {
	o := newOutput(1000)
	for range 1000 {
		o.Write([]byte(strings.Repeat("x", 10_000)))
	}
	if n := len(o.Bytes()); n > 1100 {
		t.Errorf("kept %d bytes", n)
	}
}

// writer is a handler that writes x so many times.
type writer int

func (n writer) Run(_ context.Context, _ jobs.Task, out io.Writer) error {
	_, err := io.WriteString(out, strings.Repeat("x", int(n)))
	return err
}

func (writer) Describe() string { return "writer" }

// The recorded output of an attempt is as long as the replica's limit allows.
func TestOutputIsCutAtTheLimitOfTheReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := replicatest.NewPicky(nil)
		s := replicaOn(t, st, writer(1000))
		s.work.opt.OutputLimit = 100
		s.assume(&membership.Session{ID: "session", Trust: boottime.Awake().Add(time.Hour)})
		s.work.slots.take("p", 1)
		s.work.start(t.Context(), claimed{task: jobs.Task{ID: "1", Pool: "p"}, session: "session"})
		synctest.Wait()
		half := strings.Repeat("x", 50)
		all := s.work.recorder.take()
		if want := half + "\n… 900 bytes left out …\n" + half; len(all) != 1 || string(all[0].result.Output) != want {
			t.Errorf("recorded is %+v", all)
		}
	})
}

// The smallest limit keeps nothing, and counts the bytes that are left out.
func TestOutputOfTheLeastLimit(t *testing.T) {
	o := newOutput(1)
	o.Write([]byte("abc"))
	o.Write(nil)
	o.Write([]byte("d"))
	if got := string(o.Bytes()); got != "\n… 4 bytes left out …\n" {
		t.Errorf("%q", got)
	}
}
