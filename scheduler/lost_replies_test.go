package scheduler_test

import (
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/test/chaos/proxy"
)

// A replica works on while each of its statements loses its reply and, the next time, its request:
// nothing is started twice, and nothing is left out.
func TestEachStatementIsLost(t *testing.T) {
	t.Parallel()
	direct := mysql(t)
	st := direct.open(t)
	edge, line := behindEdge(t, direct)
	var ran starts
	set := pool(&ran, func(p *jobs.Pool) { p.Workers = 8 })
	set.Jobs = map[string]jobs.Job{"j": {Schedule: "* * * * * *", Handler: &ran, Concurrency: jobs.Allow}}
	r := start(t, edge.open(t), nil, set, scheduler.Options{ID: "r", SessionTTL: 5 * time.Second})
	ids := enqueue(t, st, r, 5)
	line.breaks(true)
	few := func() bool { return len(ledgerOf(t, st, "j")) < 4 } // the first decisions lose each of their statements twice
	for began := time.Now(); time.Since(began) < 6*time.Second || len(line.whole()) > 0 || few(); time.Sleep(50 * time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatalf("not lost: %q; few due times: %t", line.whole(), few())
		}
		ids = append(ids, enqueue(t, st, r, 5)...)
	}
	line.breaks(false)
	for _, id := range ids {
		if got := ended(t, st, id); got.State != jobs.StateSucceeded || got.Attempt != 1 {
			t.Errorf("task %s: %s after %d attempts: %s", id, got.State, got.Attempt, got.Reason)
		}
	}
	if err := r.drain(); err != nil {
		t.Error(err)
	}
	ran.onlyOnce(t)
	due := ledgerOf(t, st, "j")
	covered(t, due)
	for _, row := range due {
		if row.Outcome != jobs.Ran || row.Result != jobs.StateSucceeded {
			t.Errorf("%v: %s %s %s", row.At, row.Outcome, row.Result, row.Reason)
		}
	}
	if len(due) < 4 || ran.count() != len(ids)+len(due) {
		t.Errorf("%d tasks and %d due times, and %d of them were started", len(ids), len(due), ran.count())
	}
	t.Logf("%d kinds of statements, %d tasks, %d due times", len(line.lost), len(ids), len(due))
}

// line is a connection to a server that loses two statements of each kind.
type line struct {
	mu    sync.Mutex
	on    bool // it does so now
	seen  map[string]int
	lost  map[string]int
	last  time.Time
	beats int            // heartbeats, which are sent while anything is
	at    map[string]int // how many of them came before a kind was sent last
}

func behindEdge(t *testing.T, d database) (database, *line) {
	t.Helper()
	c, err := driver.ParseDSN(d.dsn)
	if err != nil {
		t.Fatal(err)
	}
	p, err := proxy.ListenMySQL(c.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	l := newLine()
	p.Judge(l.judge)
	c.Addr = p.Addr()
	return database{d.driver, c.FormatDSN()}, l
}

func newLine() *line {
	return &line{seen: map[string]int{}, lost: map[string]int{}, at: map[string]int{}}
}

// apart is the least time between two losses: some tries succeed.
const apart = time.Millisecond

func (l *line) judge(c proxy.Command) proxy.Verdict {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.on || c.Query == "" {
		return proxy.Pass
	}
	kind := kindOf(c.Query)
	l.seen[kind]++
	if strings.Contains(kind, "SET beat = beat") {
		l.beats++
	}
	l.at[kind] = l.beats
	if l.lost[kind] == 2 || time.Since(l.last) < apart {
		return proxy.Pass
	}
	l.last = time.Now()
	l.lost[kind]++
	if l.lost[kind] == 1 {
		return proxy.LoseReply
	}
	return proxy.LoseRequest
}

var (
	literals = regexp.MustCompile(`_?(binary)?'(\\.|[^'\\])*'|\b\d+\b`)
	lists    = regexp.MustCompile(`\?(, ?\?)+`)
	rowsOf   = regexp.MustCompile(`\(\?\)(, ?\(\?\))+`)
	cases    = regexp.MustCompile(`( WHEN \? THEN \?)+`)
)

// kindOf is a statement without its values.
func kindOf(query string) string {
	query = literals.ReplaceAllString(query, "?")
	query = lists.ReplaceAllString(query, "?")
	query = rowsOf.ReplaceAllString(query, "(?)")
	return cases.ReplaceAllString(query, " WHEN ? THEN ?")
}

func (l *line) breaks(yes bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.on = yes
}

// whole are the kinds that were sent several times, are sent still, and were not lost twice. What settles a lost
// COMMIT is sent after such a loss alone: it may have come in the moment after another loss, and once all else was
// lost twice it does not come again.
func (l *line) whole() (kinds []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for kind, n := range l.seen {
		if n > 2 && l.lost[kind] < 2 && l.beats-l.at[kind] < 3 {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// A kind that is not sent any more cannot be lost, and is not waited for.
func TestALineDoesNotWaitForWhatIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine()
		l.breaks(true)
		send := func(query string) { l.judge(proxy.Command{Query: query}) }
		for range 3 {
			l.last = time.Now() // it came in the moment after another loss
			send("SELECT what became of it")
		}
		if kinds := l.whole(); len(kinds) != 1 {
			t.Errorf("whole are %q, want what was just sent", kinds)
		}
		for range 3 {
			time.Sleep(apart)
			send("UPDATE sessions SET beat = beat + 1 WHERE id = 'a'")
		}
		if kinds := l.whole(); len(kinds) != 0 {
			t.Errorf("waits for %q", kinds)
		}
	})
}
