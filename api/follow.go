package api

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"net/http"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/duration"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

const (
	followWait    = 10 * time.Second // unless the request says
	maxFollowWait = 30 * time.Second
	followPause   = 500 * time.Millisecond // between two looks

	maxFollows     = 400 // that wait
	maxFollowsEach = 100
	firstFollows   = 10
)

// followLogs answers with what has come of the outputs of a task since a place in them:
//
//  1. read what has come
//  2. answer, if that is something, if the task's state or progress is another one than the caller knows, or if the task has ended and all was told;
//     also when the wait is over, and when the server stops
//  3. wait for followPause, and begin again
func (s *server) followLogs(w http.ResponseWriter, r *http.Request, q *query) error {
	wait := followWait
	if text := q.values.Get("wait"); text != "" {
		d, err := duration.Parse(text)
		if err != nil || d < 0 || d > maxFollowWait {
			q.refuse("wait", "must be a duration from 0s to %v", maxFollowWait)
		}
		wait = d
	}
	at, known, ok := readPlace(q.values.Get("follow"))
	if !ok {
		q.refuse("follow", `must be empty, for all outputs from the beginning, or the "next" of an answer`)
	}
	if q.values.Has("attempt") {
		q.refuse("attempt", "is for one output, and follow for all of a task; remove one")
	}
	if q.err != nil {
		return q.err
	}
	if r.Method == http.MethodHead {
		wait = 0
	}
	leave, all, ok := s.follows.take(r.Context(), s.party(r), 1, quotaPatience)
	if !ok {
		return busy(w, time.Second, all, "followed outputs", maxFollows, maxFollowsEach)
	}
	defer leave()
	// The server's own bounds are for requests that are answered at once.
	stream := http.NewResponseController(w)
	_ = stream.SetReadDeadline(time.Time{})
	_ = stream.SetWriteDeadline(time.Now().Add(wait + 2*answerTime))
	stop, over := stopping(r.Context()), time.NewTimer(wait)
	defer over.Stop()
	for last := wait == 0; ; {
		news, give, err := s.outputNews(w, r, at)
		if err != nil {
			return err
		}
		answer := answerOf(news)
		if last || len(news.Parts) > 0 || news.More || answer.Ended || shown(news.Task) != known {
			defer give()
			return reply(w, http.StatusOK, answer)
		}
		give()
		select {
		case <-r.Context().Done():
			return nil
		case <-stop:
			last = true
		case <-over.C:
			last = true
		case <-time.After(followPause):
		}
	}
}

// outputNews reads within the room for reads, and keeps it until give is called.
func (s *server) outputNews(w http.ResponseWriter, r *http.Request, at ledger.OutputAt) (news ledger.OutputNews, give func(), err error) {
	give, all, ok := s.reads.take(r.Context(), s.party(r), 1, quotaPatience)
	if !ok {
		return news, nil, busy(w, quotaPatience, all, "reads", maxReads, maxReadsEach)
	}
	ctx, cancel := context.WithTimeout(r.Context(), answerTime)
	defer cancel()
	if news, err = s.store.FollowOutput(ctx, r.PathValue("id"), at); err != nil {
		give()
	}
	return news, give, err
}

func answerOf(news ledger.OutputNews) wire.OutputNews {
	answer := wire.OutputNews{Task: news.Task, Items: []wire.OutputPart{}, Next: place(news.Next, shown(news.Task)), Ended: news.Task.State.Ended() && !news.More}
	for _, p := range news.Parts {
		answer.Items = append(answer.Items, wire.OutputPart{
			Attempt: p.Attempt, At: p.At, LeftOut: p.LeftOut, Text: string(bytes.ToValidUTF8(p.Data, []byte("\uFFFD"))),
		})
	}
	return answer
}

// shown is what of a task a follower is told when it changes.
func shown(t jobs.Task) uint32 {
	done := -1.0
	if t.ProgressDone != nil {
		done = *t.ProgressDone
	}
	return crc32.ChecksumIEEE(fmt.Appendf(nil, "%s %d %d %q %v %q", t.State, t.Attempt, t.Token, t.Replica, done, t.ProgressText))
}

// place is a place in outputs as a client has it, with what it was shown of the task.
func place(at ledger.OutputAt, known uint32) string {
	return fmt.Sprintf("%d.%d.%d.%08x", at.Attempt, at.Token, at.Byte, known)
}

// readPlace is the inverse of place; "" is the beginning.
func readPlace(text string) (at ledger.OutputAt, known uint32, ok bool) {
	if text == "" {
		return at, 0, true
	}
	_, err := fmt.Sscanf(text, "%d.%d.%d.%x", &at.Attempt, &at.Token, &at.Byte, &known)
	ok = err == nil && at.Attempt > 0 && at.Token >= 0 && at.Byte >= 0 && text == place(at, known)
	return at, known, ok
}
