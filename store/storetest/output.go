package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

var outputCases = []Case{
	{"Output/Live", outputLive},
	{"Output/Short", outputShort},
	{"Output/Stale", outputStale},
	{"Output/Ends", outputEnds},
	{"Output/Lost", outputLost},
	{"Output/Forgotten", outputForgotten},
	{"Output/Gaps", outputGaps},
	{"Output/Again", outputAgain},
	{"Output/Swept", outputSwept},
}

// chunk is what a task wrote from a byte on.
func chunk(task jobs.Task, first int64, text string) ledger.Chunk {
	return ledger.Chunk{TaskID: task.ID, Token: task.Token, First: first, Data: []byte(text)}
}

// writes writes chunks, and compares which were ours.
func (s *scene) writes(want string, chunks ...ledger.Chunk) {
	s.t.Helper()
	ours, err := s.Store.WriteOutput(s.ctx(), s.session, chunks)
	must(s.t, err)
	if got := fmt.Sprint(ours); got != "["+want+"]" {
		s.t.Errorf("ours are %s, want [%s]", got, want)
	}
}

// wantOutput compares the output of an attempt; "": there is none.
func (s *scene) wantOutput(id string, attempt int, want string) {
	s.t.Helper()
	got, err := s.Store.Output(s.ctx(), id, attempt)
	if errors.Is(err, jobs.ErrNotFound) && want == "" {
		return
	}
	must(s.t, err)
	if string(got) != want {
		s.t.Errorf("the output of attempt %d is %.200q, want %.200q", attempt, got, want)
	}
}

// follows goes on from a place, and compares what comes: "attempt:at:text", with the bytes left out in front of the text as "-n".
func (s *scene) follows(from *ledger.OutputAt, id, want string) ledger.OutputNews {
	s.t.Helper()
	n, err := s.Store.FollowOutput(s.ctx(), id, *from)
	must(s.t, err)
	var got []string
	for _, p := range n.Parts {
		left := ""
		if p.LeftOut > 0 {
			left = fmt.Sprint("-", p.LeftOut)
		}
		got = append(got, fmt.Sprintf("%d:%d%s:%s", p.Attempt, p.At, left, p.Data))
	}
	if text := strings.Join(got, " "); text != want {
		s.t.Errorf("from %+v comes %.200q, want %.200q", *from, text, want)
	}
	*from = n.Next
	return n
}

// What running tasks write is there at once, in order, for whoever asks, each byte once; one chunk may take the place of a shorter one.
func outputLive(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.enqueue("work", 3)
	tasks := s.claim("work", 3)
	at := ledger.OutputAt{}
	s.follows(&at, tasks[1].ID, "")
	s.wantOutput(tasks[1].ID, 0, "")
	s.writes("true true", chunk(tasks[2], 0, "two\x00\xff'\n"), chunk(tasks[1], 0, "one\n"))
	s.wantOutput(tasks[1].ID, 0, "one\n")
	s.wantOutput(tasks[1].ID, 1, "one\n")
	s.wantOutput(tasks[1].ID, 2, "")
	s.wantOutput(tasks[2].ID, 1, "two\x00\xff'\n")
	s.wantOutput(tasks[0].ID, 0, "")
	n := s.follows(&at, tasks[1].ID, "1:0:one\n")
	if n.Task.State != jobs.StateRunning || n.Task.Attempt != 1 || n.Task.Token != tasks[1].Token || n.More {
		t.Errorf("its task is %+v, more %v", n.Task, n.More)
	}
	s.follows(&at, tasks[1].ID, "")
	s.writes("true", chunk(tasks[1], 0, "one\nmore\n")) // written again, with what has come since
	s.follows(&at, tasks[1].ID, "1:4:more\n")
	s.writes("true", chunk(tasks[1], 0, "one\nmore\n"))
	s.writes("true true", chunk(tasks[1], 9, "three"), chunk(tasks[1], 20, "four"))
	s.follows(&at, tasks[1].ID, "1:9:three 1:20-6:four")
	s.wantOutput(tasks[1].ID, 0, "one\nmore\nthree\n… 6 bytes left out …\nfour")
	s.follows(new(ledger.OutputAt), tasks[1].ID, "1:0:one\nmore\n 1:9:three 1:20-6:four")
	s.wantInt(3, "SELECT COUNT(*) FROM {chunks} WHERE task_id=?", tasks[1].ID)
	if _, err := s.Store.FollowOutput(s.ctx(), newID(), ledger.OutputAt{}); !errors.Is(err, jobs.ErrNotFound) {
		t.Errorf("of no task: %v", err)
	}
	s.writes("")
}

// Of many short chunks, as workers send them, each comes once, too: more than one answer has.
func outputShort(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.enqueue("work", 1)
	task := s.claim("work", 1)[0]
	at, told := ledger.OutputAt{}, ""
	for i := range 100 {
		s.writes("true", chunk(task, int64(2*i), "x\n"))
		if i == 80 {
			continue // it is behind
		}
		for more := true; more; {
			n, err := s.Store.FollowOutput(s.ctx(), task.ID, at)
			must(t, err)
			for _, p := range n.Parts {
				told += string(p.Data)
			}
			if more = n.More; more && n.Next == at {
				t.Fatalf("after %d bytes there is more, and nothing comes", at.Byte)
			}
			at = n.Next
		}
	}
	if want := strings.Repeat("x\n", 100); told != want {
		t.Errorf("%d bytes have come, want %d", len(told), len(want))
	}
}

// What another session, a stale token, a dead session, or the owner of a task that is pending or has ended writes is left out.
func outputStale(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.enqueue("again", 4)
	tasks := s.claim("again", 4)
	stale := tasks[0]
	stale.Token--
	s.writes("true false false", chunk(tasks[0], 0, "mine"), chunk(stale, 4, "stale"), chunk(jobs.Task{ID: newID(), Token: 1}, 0, "of none"))
	other := s.second("two")
	other.writes("false", chunk(tasks[0], 4, "another's"))
	s.finish(result(tasks[1], ledger.HandBack, ""), result(tasks[2], ledger.Ended, jobs.StateSucceeded))
	s.writes("false false true", chunk(tasks[1], 0, "pending"), chunk(tasks[2], 0, "ended"), chunk(tasks[3], 0, "mine"))
	s.die()
	s.writes("false", chunk(tasks[0], 4, "dead"))
	s.wantOutput(tasks[0].ID, 1, "mine")
	s.wantInt(2, "SELECT COUNT(*) FROM {chunks}")
	other.reap()
	s.DB.Exec(t, "UPDATE {tasks} SET state=0, run_at=1")
	for _, again := range other.claim("again", 1) {
		s.writes("false", chunk(tasks[0], 4, "of the attempt before"))
		other.writes("true", chunk(again, 0, "the next one"))
	}
}

// wrote is a result of an attempt of which chunks were sent.
func wrote(r ledger.Result, output string) ledger.Result {
	r.Output, r.Chunked = []byte(output), true
	return r
}

// However an attempt ends, its chunks go; its output is what it ended with, or what had arrived.
func outputEnds(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.enqueue("again", 8)
	tasks := s.claim("again", 8)
	places := make([]ledger.OutputAt, len(tasks))
	for i, task := range tasks {
		s.writes("true true", chunk(task, 0, "some"), chunk(task, 10, "thing"))
		s.follows(&places[i], task.ID, "1:0:some 1:10-6:thing")
	}
	whole := wrote(result(tasks[0], ledger.Ended, jobs.StateSucceeded), "some of everything and the rest")
	cut := wrote(result(tasks[1], ledger.Ended, jobs.StateFailed), "some\n… 20 bytes left out …\nrest")
	cut.Spans = "0+4 24+4"
	cancelled, err := s.Store.Cancel(s.ctx(), tasks[7].ID, "me")
	if must(t, err); cancelled.State != jobs.StateRunning {
		t.Fatalf("%+v", cancelled)
	}
	s.wantFinish(s.finish(
		whole, cut,
		wrote(result(tasks[2], ledger.Again, jobs.StateFailed), "again, and more of it"),
		wrote(result(tasks[3], ledger.Snoozed, jobs.StatePending), ""),
		wrote(result(tasks[4], ledger.HandBack, ""), ""),
		wrote(result(tasks[5], ledger.Died, jobs.StateLost), "drained, and killed after"),
		wrote(result(tasks[6], ledger.Ended, jobs.StateSucceeded), ""),
		wrote(result(tasks[7], ledger.Ended, jobs.StateCancelled), "cancelled"),
	), slicesOf(ledger.Recorded, 8)...)
	s.wantEmpty("chunks")
	const arrived = "some\n… 6 bytes left out …\nthing"
	for i, want := range []struct{ output, next string }{
		{"some of everything and the rest", "1:15:ing and the rest"},
		{"some\n… 20 bytes left out …\nrest", "1:24-9:rest"},
		{"again, and more of it", "1:15: of it"},
		{"", ""},
		{"", ""},
		{"drained, and killed after", "1:15:lled after"},
		{arrived, ""},
		{"cancelled", ""},
	} {
		s.wantOutput(tasks[i].ID, 1, want.output)
		s.follows(&places[i], tasks[i].ID, want.next)
		s.follows(&places[i], tasks[i].ID, "")
	}
	s.follows(new(ledger.OutputAt), tasks[1].ID, "1:0:some 1:24-20:rest")
	// An attempt that was undone begins again, under its number.
	s.DB.Exec(t, "UPDATE {tasks} SET state=0, run_at=1 WHERE id=?", tasks[3].ID)
	again := s.claim("again", 1)[0]
	s.writes("true", chunk(again, 0, "anew"))
	s.follows(&places[3], tasks[3].ID, "1:0:anew")
	s.wantFinish(s.finish(wrote(result(again, ledger.Ended, jobs.StateSucceeded), "anew, done")), ledger.Recorded)
	s.follows(&places[3], tasks[3].ID, "1:4:, done")
	// One that nobody followed in between.
	s.DB.Exec(t, "UPDATE {tasks} SET state=0, run_at=1 WHERE id=?", tasks[4].ID)
	again = s.claim("again", 1)[0]
	places[4] = ledger.OutputAt{Attempt: 1, Token: tasks[4].Token, Byte: 15}
	s.finish(wrote(result(again, ledger.Ended, jobs.StateSucceeded), "anew"))
	s.follows(&places[4], tasks[4].ID, "1:0:anew")
}

// What had arrived of a lost attempt stays, and says that there may have been more; its own late output takes its place.
func outputLost(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.enqueue("work", 3)
	tasks := s.claim("work", 3)
	at := ledger.OutputAt{}
	s.writes("true true", chunk(tasks[0], 0, "some"), chunk(tasks[1], 0, "other"))
	s.follows(&at, tasks[0].ID, "1:0:some")
	other := s.second("two")
	s.die()
	other.reap()
	s.wantEmpty("chunks")
	const lost = "\n[lost: what was written after this did not arrive]\n"
	s.wantOutput(tasks[0].ID, 0, "some"+lost)
	s.wantOutput(tasks[1].ID, 1, "other"+lost)
	s.wantOutput(tasks[2].ID, 0, "")
	s.follows(&at, tasks[0].ID, "1:4:"+lost)
	s.wantFinish(s.finish(wrote(result(tasks[0], ledger.Ended, jobs.StateSucceeded), "some and all")), ledger.Late)
	s.wantOutput(tasks[0].ID, 1, "some and all")
	s.wantFinish(s.finish(wrote(result(tasks[1], ledger.Ended, jobs.StateSucceeded), "")), ledger.Late)
	s.wantOutput(tasks[1].ID, 1, "other"+lost)
}

// Of a long output the beginning and the end are kept while it grows.
func outputForgotten(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.enqueue("work", 2)
	tasks := s.claim("work", 2)
	part := strings.Repeat("x", ledger.ChunkBytes)
	for i := range int64(8) {
		c := chunk(tasks[0], i*ledger.ChunkBytes, part)
		c.Forget = ledger.Forgotten(c.First + ledger.ChunkBytes)
		s.writes("true true", c, chunk(tasks[1], i*ledger.ChunkBytes, part))
	}
	s.wantInt(3, "SELECT COUNT(*) FROM {chunks} WHERE task_id=?", tasks[0].ID)
	s.wantInt(8, "SELECT COUNT(*) FROM {chunks} WHERE task_id=?", tasks[1].ID)
	s.wantOutput(tasks[0].ID, 0, fmt.Sprintf("%s\n… %d bytes left out …\n%[1]s%[1]s", part, 5*ledger.ChunkBytes))
	at := ledger.OutputAt{Attempt: 1, Token: tasks[0].Token, Byte: ledger.ChunkBytes - 1}
	n := s.follows(&at, tasks[0].ID, fmt.Sprintf("1:%d:x 1:%d-%d:%s 1:%d:%[4]s", ledger.ChunkBytes-1, 6*ledger.ChunkBytes, 5*ledger.ChunkBytes, part, 7*ledger.ChunkBytes))
	if n.More || at.Byte != 8*ledger.ChunkBytes {
		t.Errorf("it goes on at %+v, more %v", at, n.More)
	}
}

// An attempt ends, however many gaps what has arrived of it has. Its beginning and its end are kept.
func outputGaps(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.enqueue("work", 1)
	task := s.claim("work", 1)[0]
	var chunks []ledger.Chunk
	for i := range int64(300) {
		chunks = append(chunks, chunk(task, 1_000_000*i, fmt.Sprintf("<%d>", i)))
	}
	s.writes(strings.TrimSpace(strings.Repeat("true ", len(chunks))), chunks...)
	r := result(task, ledger.Ended, jobs.StateSucceeded)
	r.Chunked = true
	s.wantFinish(s.finish(r), ledger.Recorded)
	got, err := s.Store.Output(s.ctx(), task.ID, 1)
	must(t, err)
	if text := string(got); !strings.HasPrefix(text, "<0>\n… 999997 bytes left out …\n<1>") || !strings.HasSuffix(text, "\n<299>") {
		t.Errorf("the output is %q", text)
	}
	s.wantInt(0, "SELECT COUNT(*) FROM {chunks}")
	n, err := s.Store.FollowOutput(s.ctx(), task.ID, ledger.OutputAt{})
	must(t, err)
	if last := n.Parts[len(n.Parts)-1]; last.At != 299_000_000 || string(last.Data) != "<299>" {
		t.Errorf("who follows it gets %d parts, the last one from %d on: %.100q", len(n.Parts), last.At, last.Data)
	}
}

// Outputs of several attempts come one after the other, many of them in several answers.
func outputAgain(t *testing.T, b *Bench) {
	s := newScene(t, b)
	id := s.enqueue("again", 1)[0]
	at, all := ledger.OutputAt{}, new(bytes.Buffer)
	for i := range 6 {
		s.DB.Exec(t, "UPDATE {tasks} SET state=0, run_at=1, max_attempts=9")
		task := s.claim("again", 1)[0]
		if i == 3 {
			s.finish(result(task, ledger.Again, jobs.StateFailed)) // without an output
			continue
		}
		s.finish(wrote(result(task, ledger.Again, jobs.StateFailed), fmt.Sprintf("attempt %d", i+1)))
	}
	s.DB.Exec(t, "UPDATE {tasks} SET state=0, run_at=1")
	task := s.claim("again", 1)[0]
	s.writes("true", chunk(task, 0, "runs"))
	for range 5 {
		n, err := s.Store.FollowOutput(s.ctx(), id, at)
		must(t, err)
		for _, p := range n.Parts {
			fmt.Fprintf(all, "%d %s, ", p.Attempt, p.Data)
		}
		at = n.Next
		if !n.More {
			break
		}
	}
	if want := "1 attempt 1, 2 attempt 2, 3 attempt 3, 5 attempt 5, 6 attempt 6, 7 runs, "; all.String() != want {
		t.Errorf("it was told %q, want %q", all, want)
	}
	s.follows(&at, id, "")
}

// What is left of chunks goes with its task.
func outputSwept(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.enqueue("work", 2)
	tasks := s.claim("work", 2)
	s.writes("true true", chunk(tasks[0], 0, "left"), chunk(tasks[1], 0, "runs"))
	s.finish(result(tasks[0], ledger.Ended, jobs.StateSucceeded)) // as a program that does not know chunks does
	s.wantInt(2, "SELECT COUNT(*) FROM {chunks}")
	s.wantOutput(tasks[0].ID, 0, "")
	s.DB.Exec(t, "UPDATE {done} SET finished_at=1")
	s.sweep(jobs.Retention{Succeeded: time.Hour}, 100)
	s.wantEmpty("done")
	s.wantInt(1, "SELECT COUNT(*) FROM {chunks}")
	s.wantOutput(tasks[1].ID, 0, "runs")
}
