package scheduler

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// written is a store that keeps the calls of WriteOutput. While away is set it fails them, every other one after it was done.
type written struct {
	*memstore.Store
	mu    sync.Mutex
	calls []outputCall
	away  bool
}

type outputCall struct {
	at     time.Time
	chunks []ledger.Chunk
}

func (w *written) WriteOutput(ctx context.Context, session string, chunks []ledger.Chunk) ([]bool, error) {
	w.mu.Lock()
	w.calls = append(w.calls, outputCall{time.Now(), slices.Clone(chunks)})
	away, n := w.away, len(w.calls)
	w.mu.Unlock()
	if away && n%2 == 0 {
		return nil, jobs.ErrUnavailable
	}
	ours, err := w.Store.WriteOutput(ctx, session, chunks)
	if away {
		return nil, jobs.ErrUnavailable
	}
	return ours, err
}

func (w *written) set(away bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.away = away
}

func (w *written) taken() []outputCall {
	w.mu.Lock()
	defer w.mu.Unlock()
	calls := w.calls
	w.calls = nil
	return calls
}

func (w *written) enqueue(t *testing.T, n int) (ids []string) {
	t.Helper()
	added, err := w.Enqueue(t.Context(), slices.Repeat([]jobs.NewTask{{Pool: "p"}}, n)...)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range added {
		ids = append(ids, a.Task.ID)
	}
	return ids
}

// reader follows the first attempt of a task.
type reader struct {
	st   *written
	id   string
	at   ledger.OutputAt
	text bytes.Buffer
	left int64
}

func (r *reader) read(t *testing.T) jobs.Task {
	t.Helper()
	n, err := r.st.FollowOutput(t.Context(), r.id, r.at)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range n.Parts {
		if p.At != int64(r.text.Len())+r.left+p.LeftOut {
			t.Fatalf("after %d bytes, and %d left out, comes byte %d, with %d left out before it", r.text.Len(), r.left, p.At, p.LeftOut)
		}
		r.left += p.LeftOut
		r.text.Write(p.Data)
	}
	r.at = n.Next
	return n.Task
}

// A hundred attempts that write all the time cost one call a second. Whoever follows one sees each line within two seconds, and in the end all of it, once, also
// where calls failed in between, or had no answer. Attempts that write nothing cost no call.
func TestOutputIsSentOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tasks, lines = 100, 200
		st := &written{Store: &memstore.Store{Database: memstore.New()}}
		begun := map[string]time.Time{}
		var mu sync.Mutex
		h := replicatest.Function(func(_ context.Context, task jobs.Task, out io.Writer) error {
			mu.Lock()
			begun[task.ID] = time.Now()
			mu.Unlock()
			for i := range lines {
				fmt.Fprintf(out, "line %d\n", i)
				time.Sleep(100 * time.Millisecond)
			}
			time.Sleep(time.Minute)
			_, err := io.WriteString(out, "the end")
			return err
		})
		runs(t, st, jobs.Set{Pools: map[string]jobs.Pool{"p": {Handler: h, Workers: tasks}}}, Options{ID: "a", Workers: tasks})
		time.Sleep(time.Second) // it has joined
		r := &reader{st: st, id: st.enqueue(t, tasks)[0]}
		synctest.Wait()
		worst, wasAway := 0, false
		for range 60 {
			time.Sleep(500 * time.Millisecond)
			r.read(t)
			mu.Lock()
			began, running := begun[r.id]
			mu.Unlock()
			if !running {
				continue
			}
			since := time.Since(began)
			if since > 5*time.Second && since < 8*time.Second || since > 18*time.Second && since < 22*time.Second { // the last lines come then

				st.set(true)
				wasAway = true
			} else {
				st.set(false)
			}
			due, seen := min(lines, int((since-2*time.Second)/(100*time.Millisecond))), strings.Count(r.text.String(), "\n")
			if since < 5*time.Second || since > 10*time.Second && since < 18*time.Second || since > 24*time.Second {
				worst = max(worst, due-seen)
			}
		}
		if worst > 0 || !wasAway {
			t.Errorf("%d lines had not been seen after two seconds; the store was away: %v", worst, wasAway)
		}
		calls := st.taken()
		if len(calls) < 19 || len(calls) > 25 {
			t.Errorf("%d calls in 22 s", len(calls))
		}
		for i, c := range calls {
			if i > 0 && c.at.Sub(calls[i-1].at) < time.Second {
				t.Errorf("call %d comes %v after the one before", i, c.at.Sub(calls[i-1].at))
			}
			if i > 0 && len(c.chunks) != tasks {
				t.Errorf("call %d is about %d tasks", i, len(c.chunks))
			}
		}
		time.Sleep(30 * time.Second)
		if n := len(st.taken()); n != 0 {
			t.Errorf("%d calls while nothing was written", n)
		}
		if task := r.read(t); task.State != jobs.StateRunning {
			t.Fatalf("the task is %s", task.State)
		}
		time.Sleep(time.Minute)
		if task := r.read(t); task.State != jobs.StateSucceeded {
			t.Fatalf("the task is %s", task.State)
		}
		var want strings.Builder
		for i := range lines {
			fmt.Fprintf(&want, "line %d\n", i)
		}
		if r.text.String() != want.String()+"the end" || r.left != 0 {
			t.Errorf("followed was %.300q, and %d bytes were left out", r.text.String(), r.left)
		}
		if got, err := st.Output(t.Context(), r.id, 0); err != nil || string(got) != r.text.String() {
			t.Errorf("kept is %.300q, %v", got, err)
		}
		if rows, _ := st.Database.Dump("chunks"); len(rows) > 0 {
			t.Errorf("%d chunks are left", len(rows))
		}
	})
}

// Of what is written faster than it is sent the follower is told how much is left out, calls and rows stay bounded, and the end of it comes whole.
func TestOutputThatIsTooMuch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tasks = 40
		st := &written{Store: &memstore.Store{Database: memstore.New()}}
		line := strings.Repeat("x", 999) + "\n"
		h := replicatest.Function(func(_ context.Context, _ jobs.Task, out io.Writer) error {
			for range 1000 {
				_, _ = io.WriteString(out, strings.Repeat(line, 20))
				time.Sleep(50 * time.Millisecond)
			}
			_, err := io.WriteString(out, "the end")
			return err
		})
		runs(t, st, jobs.Set{Pools: map[string]jobs.Pool{"p": {Handler: h, Workers: tasks}}}, Options{ID: "a", Workers: tasks})
		time.Sleep(time.Second)
		r := &reader{st: st, id: st.enqueue(t, tasks)[tasks-1]}
		for range 40 {
			time.Sleep(time.Second)
			r.read(t)
		}
		if r.left < 10<<20 || r.text.Len() < 300<<10 {
			t.Errorf("it was told %d bytes, and that %d are left out", r.text.Len(), r.left)
		}
		for _, c := range st.taken() {
			bytes := 0
			for _, chunk := range c.chunks {
				bytes += len(chunk.Data)
			}
			if bytes > 512<<10 {
				t.Errorf("a call has %d bytes", bytes)
			}
		}
		if rows, _ := st.Database.Dump("chunks"); len(rows) > tasks*10 {
			t.Errorf("%d chunks of %d attempts", len(rows), tasks)
		}
		time.Sleep(time.Minute)
		if task := r.read(t); task.State != jobs.StateSucceeded || !strings.HasSuffix(r.text.String(), line+"the end") {
			t.Errorf("in the end: %s, …%.50q", task.State, r.text.String()[r.text.Len()-50:])
		}
		if all := int64(r.text.Len()) + r.left; all != 20*1000*1000+7 {
			t.Errorf("it was told of %d bytes", all)
		}
	})
}

// Short attempts cost no call, whatever they write, and leave no chunks.
func TestTheOutputOfShortAttemptsIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &written{Store: &memstore.Store{Database: memstore.New()}}
		h := replicatest.Function(func(_ context.Context, _ jobs.Task, out io.Writer) error {
			for range 9 {
				fmt.Fprintln(out, "line")
				time.Sleep(100 * time.Millisecond)
			}
			return nil
		})
		runs(t, st, jobs.Set{Pools: map[string]jobs.Pool{"p": {Handler: h, Workers: 10}}}, Options{ID: "a", Workers: 10})
		time.Sleep(time.Second)
		ids := st.enqueue(t, 100)
		time.Sleep(time.Minute)
		if n := len(st.taken()); n != 0 {
			t.Errorf("%d calls", n)
		}
		r := &reader{st: st, id: ids[99]}
		if task := r.read(t); task.State != jobs.StateSucceeded || r.text.String() != strings.Repeat("line\n", 9) {
			t.Errorf("%s, %q", task.State, r.text.String())
		}
	})
}
