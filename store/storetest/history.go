package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

var historyCases = []Case{
	{"History/Kept", historyKept},
	{"History/OfOlderRows", historyOfOlderRows},
	{"History/NotGoverning", historyNotGoverning},
	{"History/OfTriggers", historyOfTriggers},
	{"History/Swept", historySwept},
}

var historyViewCases = []Case{
	{"History/Listed", historyListed},
	{"History/Took", historyTook},
}

// hashed are the definitions of a scene, with another hash for job a.
func hashed(hash string) ledger.Definitions {
	d := definitions()
	d.Jobs[0].Hash = hash
	d.Shown = func(job string) json.RawMessage { return json.RawMessage(fmt.Sprintf(`{"job":%q,"is":%q}`, job, hash)) }
	return d
}

// definition is the row of a definition of job a.
func (s *scene) definition(hash string) row { return s.row("definitions", "job='a' AND hash=?", hash) }

// Each definition has a row from when it begins to govern, which says since and until when; one that comes back has its old row and name.
func historyKept(t *testing.T, b *Bench) {
	s := newScene(t, b)
	first := s.definition(hash)
	s.wantRow("without what is shown", first.without("definition", "first_at", "since_at"), row{
		"job": "a", "hash": hash, "config": s.DB.Int(t, "SELECT config FROM {sessions} WHERE id=?", s.session), "until_at": 0, "body": "{}",
	})
	if first["first_at"] != first["since_at"] || len(fmt.Sprint(first["definition"])) != 16 {
		t.Errorf("the first definition: %v", first)
	}
	config := load(t, b, s.session, hashed("two"))
	two := s.definition("two")
	s.wantRow("two", two.without("definition", "first_at"), row{"job": "a", "hash": "two", "config": config, "since_at": two["first_at"], "until_at": 0, "body": `{"job":"a","is":"two"}`})
	s.wantRow("replaced", s.definition(hash), first.with(row{"until_at": two["since_at"]}))
	if two["definition"] == first["definition"] {
		t.Errorf("two definitions are named %v", two["definition"])
	}
	s.wantInt(1, "SELECT COUNT(*) FROM {definitions} WHERE job='b'")

	load(t, b, s.session, hashed(hash))
	back := s.definition(hash)
	s.wantRow("back again", back, first.with(row{"since_at": back["since_at"], "body": `{"job":"a","is":"hash"}`}))
	if s.wantRow("replaced", s.definition("two"), two.with(row{"until_at": back["since_at"]})); back["since_at"].(int64) < two["since_at"].(int64) {
		t.Errorf("back at %v, two since %v", back, two)
	}

	gone := hashed(hash)
	gone.Jobs = gone.Jobs[1:]
	load(t, b, s.session, gone)
	if retired := s.definition(hash); retired["until_at"].(int64) < back["since_at"].(int64) {
		t.Errorf("retired: %v", retired)
	}
	load(t, b, s.session, hashed(hash))
	s.wantInt(0, "SELECT until_at FROM {definitions} WHERE job='a' AND hash=?", hash)
	s.wantInt(2, "SELECT COUNT(*) FROM {definitions} WHERE job='a'")
}

// What a program without a history has written gets one by the next that governs; nothing else of the job changes.
func historyOfOlderRows(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.DB.Exec(t, "DELETE FROM {definitions} WHERE job='a'")
	s.DB.Exec(t, "UPDATE {jobs} SET defined='', cursor_at=7, next_at=8, waiting_at=9 WHERE name='a'")
	before := s.row("jobs", "name='a'")
	assertHolds(t, b, s.session, definitions(), true)
	s.wantRow("job", s.row("jobs", "name='a'"), before.with(row{"defined": hash}))
	s.wantInt(0, "SELECT until_at FROM {definitions} WHERE job='a' AND hash=?", hash)

	// Such a program has replaced a definition, whose row does not say so.
	s.DB.Exec(t, "UPDATE {jobs} SET hash='theirs' WHERE name='a'")
	assertHolds(t, b, s.session, hashed("theirs"), true)
	if s.DB.Int(t, "SELECT until_at FROM {definitions} WHERE job='a' AND hash=?", hash) == 0 {
		t.Error("two definitions govern")
	}
	s.wantInt(0, "SELECT until_at FROM {definitions} WHERE job='a' AND hash='theirs'")
}

// A replica that does not govern writes no history, and does not leave a job to others for the lack of it.
func historyNotGoverning(t *testing.T, b *Bench) {
	s := newScene(t, b)
	other := s.second("two")
	load(t, other.Bench, other.session, definitions())
	s.DB.Exec(t, "UPDATE {sessions} SET config=config+1 WHERE id=?", other.session)
	s.DB.Exec(t, "UPDATE {jobs} SET defined=''")
	got, err := s.Store.Assert(s.ctx(), s.session, definitions())
	must(t, err)
	if diff := cmp.Diff(ledger.Assertion{}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	s.wantInt(3, "SELECT COUNT(*) FROM {jobs} WHERE defined=''")
}

// The row of a trigger names the definition of its job's row, and the configuration of its decider.
func historyOfTriggers(t *testing.T, b *Bench) {
	s := newScene(t, b)
	load(t, b, s.session, hashed("two"))
	other := s.second("two")
	config := load(t, other.Bench, other.session, hashed("two"))
	got, err := other.decide(run("a", due(1), false))
	must(t, err)
	id := s.DB.Text(t, "SELECT definition FROM {definitions} WHERE job='a' AND hash='two'")
	s.wantRow("trigger", row{"definition": s.row("triggers", "job='a'")["definition"], "config": s.row("triggers", "job='a'")["config"]}, row{"definition": id, "config": config})
	if g := got.Decisions[0].Triggers[0].Trigger; g.Definition != id || g.Config != config {
		t.Errorf("answered: %q, %d", g.Definition, g.Config)
	}
	d := s.deciding(func([]ledger.JobState) []ledger.Decision { return []ledger.Decision{run("b", due(1), false)} })
	d.Overdue = true
	s.DB.Exec(t, "UPDATE {jobs} SET next_at=1 WHERE name='b'")
	_, err = s.Store.Decide(s.ctx(), d)
	must(t, err)
	s.wantInt(1, "SELECT overdue FROM {triggers} WHERE job='b'")
	s.wantInt(0, "SELECT overdue FROM {triggers} WHERE job='a'")

	// What an edit leaves undecided was due by the definition that it replaces, which is named; so is the configuration that did it.
	s.DB.Exec(t, "UPDATE {jobs} SET cursor_at=4, next_at=5 WHERE name='c'")
	d3 := hashed("two")
	d3.Jobs[2].Schedule, d3.Jobs[2].Hash = "each hour", "three"
	config = load(t, b, s.session, d3)
	is, id := s.row("triggers", "job='c'"), s.DB.Text(t, "SELECT definition FROM {definitions} WHERE job='c' AND hash=?", hash)
	s.wantRow("missed by an edit", row{"definition": is["definition"], "config": is["config"]}, row{"definition": id, "config": config})
}

// A definition is deleted when it has not governed for longer than triggers are kept, and no trigger is left of when it did.
func historySwept(t *testing.T, b *Bench) {
	s := newScene(t, b)
	load(t, b, s.session, hashed("two"))
	load(t, b, s.session, hashed("three"))
	s.DB.Exec(t, "UPDATE {definitions} SET until_at=? WHERE job='a' AND hash=?", ago(3*time.Hour), hash)
	s.DB.Exec(t, "UPDATE {definitions} SET until_at=? WHERE job='a' AND hash='two'", ago(2*time.Hour))
	keep := jobs.Retention{Triggers: 4 * time.Hour}
	s.sweep(keep, 100)
	s.wantInt(3, "SELECT COUNT(*) FROM {definitions} WHERE job='a'")

	// Open, and older than what is kept: it stays, and with it what governed then and later.
	insert := "INSERT INTO {triggers} (job, at, seq, cause, outcome, replica, decided_at) VALUES ('a', ?, 0, 'schedule', ?, 'r', ?)"
	s.DB.Exec(t, insert, ago(150*time.Minute), "", ago(150*time.Minute))
	keep.Triggers = time.Hour
	s.sweep(keep, 100)
	s.wantInt(0, "SELECT COUNT(*) FROM {definitions} WHERE job='a' AND hash=?", hash)
	s.wantInt(1, "SELECT COUNT(*) FROM {definitions} WHERE job='a' AND hash='two'")
	s.DB.Exec(t, "UPDATE {triggers} SET outcome='ran'")
	s.sweep(keep, 100)
	s.sweep(keep, 100)
	s.wantInt(0, "SELECT COUNT(*) FROM {definitions} WHERE job='a' AND hash='two'")
	s.wantInt(1, "SELECT COUNT(*) FROM {definitions} WHERE job='a' AND hash='three'")
	s.wantInt(2, "SELECT COUNT(*) FROM {definitions} WHERE job<>'a'")
}

// Pages go from the latest to the first, each definition once; those of other jobs are not among them.
func historyListed(t *testing.T, b *Bench) {
	s := newScene(t, b)
	for i := range 6 {
		load(t, b, s.session, hashed(fmt.Sprint("h", i)))
	}
	s.DB.Exec(t, "UPDATE {definitions} SET since_at=5 WHERE job='a' AND hash IN ('h1', 'h2', 'h3')") // of one moment
	api := b.SQL().Sides().API
	var all []wire.Definition
	p := wire.Page{Limit: 2}
	for {
		rows, next, err := api.History(s.ctx(), "a", p)
		must(t, err)
		all = append(all, rows...)
		if next == "" {
			break
		}
		p.Cursor = next
	}
	seen := map[string]bool{}
	for i, d := range all {
		if d.Job != "a" || seen[d.Hash] || i > 0 && d.Since.After(all[i-1].Since) || len(d.Definition) < 2 || d.Config == 0 || d.FirstAt.IsZero() {
			t.Errorf("%d: %+v", i, d)
		}
		seen[d.Hash] = true
	}
	if id, err := api.DefinitionID(s.ctx(), "h5"); err != nil || id != all[0].Hash {
		t.Errorf("h5 is named %q, %v, in the history %q", id, err, all[0].Hash)
	}
	if id, err := api.DefinitionID(s.ctx(), "never loaded"); err != nil || len(id) != 16 || seen[id] {
		t.Errorf("another one is named %q, %v", id, err)
	}
	if len(all) != 7 || !all[0].Until.IsZero() || string(all[0].Definition) != `{"job":"a","is":"h5"}` {
		t.Errorf("%d definitions, the first %+v", len(all), all[0])
	}
	if rows, next, err := api.History(s.ctx(), "none", wire.Page{}); len(rows) > 0 || next != "" || err != nil {
		t.Error(rows, next, err)
	}
	for _, p := range []wire.Page{{Limit: -1}, {Limit: 501}, {Cursor: "x"}} {
		if _, _, err := api.History(s.ctx(), "a", p); !errors.Is(err, jobs.ErrInvalid) {
			t.Errorf("%+v: %v", p, err)
		}
	}
}

// A row says how long its decider took, with what it waited for.
func historyTook(t *testing.T, b *Bench) {
	s := newScene(t, b)
	d := s.deciding(func([]ledger.JobState) []ledger.Decision {
		time.Sleep(20 * time.Millisecond) // as a wait in the transaction
		return []ledger.Decision{run("a", due(1), false)}
	})
	_, err := s.Store.Decide(s.ctx(), d)
	must(t, err)
	if took := s.DB.Int(t, "SELECT took FROM {triggers} WHERE job='a'"); took < 20_000 || took > time.Minute.Microseconds() {
		t.Errorf("it took %d µs", took)
	}
}
