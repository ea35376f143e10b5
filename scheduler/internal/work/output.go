package work

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/clip"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/wake"
)

const (
	// liveAfter is how old an attempt is before what it writes is sent: of most tasks only the end is written.
	liveAfter = time.Second
	// liveBytes is how much of the outputs of all attempts is sent in a call.
	liveBytes = 512 << 10
	// liveGrown is how long the last chunk of an attempt is before another one is begun: a shorter one is sent again with what has come since, so that
	// lines that come one by one do not become as many rows.
	liveGrown = 4 << 10
)

// live is the output of an attempt while it runs: it keeps its head and tail, and of these what is to be sent. What is written faster than it is
// sent is left out, as in the output that is kept in the end.
type live struct {
	*clip.Output
	wake    chan struct{} // of writeProgress
	since   time.Time
	changed atomic.Bool // something was written since it was taken
	file    outputFile  // of the goroutine that writes

	mu     sync.Mutex
	over   bool
	sent   bool  // a chunk was, or may have been
	first  int64 // of the last chunk
	next   int64 // the first byte that was not sent
	forgot int64 // up to where chunks were forgotten
	tried  time.Time
}

func newLive(limit int, wake chan struct{}) *live {
	return &live{Output: clip.NewOutput(limit), wake: wake, since: time.Now()}
}

// Write never fails.
func (l *live) Write(p []byte) (int, error) {
	n, err := l.Output.Write(p)
	l.file.write(p)
	if len(p) > 0 && !l.changed.Swap(true) {
		wake.Send(l.wake)
	}
	return n, err
}

// take returns what is to be sent: the last chunk once more if it is short, with what follows. False: there is nothing.
func (l *live) take(now time.Time, most int) (c ledger.Chunk, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over || !l.changed.Swap(false) {
		return c, false
	}
	from := l.next
	if l.next-l.first < liveGrown {
		from = l.first
	}
	part := l.After(from, min(most, ledger.ChunkBytes))
	if part.At != from { // what the last chunk has is not kept any more
		part = l.After(l.next, min(most, ledger.ChunkBytes))
	}
	end := part.At + int64(len(part.Data))
	if end <= l.next {
		return c, false
	}
	if rest := l.After(end, 1<<30); len(rest.Data) > 0 {
		l.changed.Store(true)
	}
	l.sent, l.tried = true, now
	c = ledger.Chunk{First: part.At, Data: part.Data}
	if forget := ledger.Forgotten(end); forget-l.forgot >= ledger.TailKept {
		c.Forget = forget
	}
	return c, true
}

// acknowledge notes that a chunk was written.
func (l *live) acknowledge(c ledger.Chunk) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.first, l.next = c.First, c.First+int64(len(c.Data))
	l.forgot = max(l.forgot, c.Forget)
}

// end returns whether chunks were sent. None is sent any more.
func (l *live) end() (sent bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
	return l.sent
}

// writeOutput sends what attempts have written, in one call for all, those first that have waited longest; what finds no room in it waits for the
// next one, as does what is written by an attempt that has just begun.
func (e *Executor) writeOutput(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, rowsCall)
	defer cancel()
	ses, now := e.member.Session(), time.Now()
	var changed []*attempt
	again := false
	for _, a := range e.register.attempts() {
		switch {
		case a.session != ses.ID || !a.live.changed.Load():
		case now.Sub(a.live.since) < liveAfter:
			again = true
		default:
			changed = append(changed, a)
		}
	}
	slices.SortFunc(changed, func(a, b *attempt) int { return a.live.tried.Compare(b.live.tried) })
	var chunks []ledger.Chunk
	var of []*attempt
	room := liveBytes
	for _, a := range changed {
		if room < liveGrown {
			again = true
			break
		}
		c, ok := a.live.take(now, room)
		if !ok {
			continue
		}
		c.TaskID, c.Token = a.task.ID, a.task.Token
		chunks, of = append(chunks, c), append(of, a)
		room -= len(c.Data)
	}
	if len(chunks) > 0 {
		again = e.sendOutput(ctx, ses.ID, chunks, of) || again
	}
	if again || slices.ContainsFunc(of, func(a *attempt) bool { return a.live.changed.Load() }) {
		wake.Send(e.wakeProgress)
	}
}

// sendOutput reports whether the chunks are to be sent again.
func (e *Executor) sendOutput(ctx context.Context, session string, chunks []ledger.Chunk, of []*attempt) (again bool) {
	ours, err := e.store.WriteOutput(ctx, session, chunks)
	for i, a := range of {
		switch {
		case err == nil && ours[i]:
			a.live.acknowledge(chunks[i])
		case err != nil && !refusal(err):
			a.live.changed.Store(true)
			again = true
		}
	}
	return again
}
