package store

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/paging"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
)

// definitionModel is a row of {definitions}.
type definitionModel struct {
	Job                       string `gorm:"primaryKey"`
	Hash                      string `gorm:"primaryKey"`
	Definition                string
	Config                    int64
	FirstAt, SinceAt, UntilAt int64
	Body                      []byte
}

var definitionColumns = columnsOf(definitionModel{})

func (m *definitionModel) definition() wire.Definition {
	return wire.Definition{
		Job: m.Job, Hash: m.Definition, Config: m.Config, FirstAt: fromMicros(m.FirstAt), Since: fromMicros(m.SinceAt), Until: fromMicros(m.UntilAt),
		Definition: append(json.RawMessage(nil), m.Body...),
	}
}

// definitionID names the definition of a job that has a hash. The key is read once.
func (t *tx) definitionID(hash string) (string, error) {
	key := t.s.key.Load()
	if key == nil {
		key = new(string)
		if _, err := t.One(`SELECT value FROM {meta} WHERE name = ?`, []any{"definition_key"}, key); err != nil {
			return "", err
		}
		t.s.key.Store(key)
	}
	return ledger.DefinitionID(*key, hash), nil
}

// history is what becomes of {definitions} when a configuration is written: what is replaced ends, what begins to govern has a row.
type history struct {
	now    time.Time
	config int64
	shown  func(job string) json.RawMessage // nil: nothing is

	ended []string // jobs
	begun []definitionModel
}

// replace is called with the row of a job before its definition is d, or nil.
func (h *history) replace(job string, row jobModel, d *ledger.JobDef) {
	if row.Defined != "" && (d == nil || row.Defined != d.Hash) {
		h.ended = append(h.ended, job)
	}
	if d == nil {
		return
	}
	body := json.RawMessage("{}")
	if h.shown != nil {
		body = h.shown(job)
	}
	at := micros(h.now)
	h.begun = append(h.begun, definitionModel{Job: job, Hash: d.Hash, Config: h.config, FirstAt: at, SinceAt: at, Body: body})
}

// write: the rows of the jobs are locked. One definition of a job governs at most, the others have ended.
//
// Index: primary key; of SQLite definitions_since. That of until_at would lead to what governs of all jobs, so the condition hides the column.
func (h *history) write(t *tx) error {
	_, err := t.Exec("UPDATE {definitions}{by_key} SET until_at=? WHERE {in name job} AND until_at+0=0", sqlkit.Keys(h.ended), micros(h.now))
	if err != nil {
		return err
	}
	var rows [][]any
	for _, m := range h.begun {
		id, err := t.definitionID(m.Hash)
		if err != nil {
			return err
		}
		rows = append(rows, []any{m.Job, m.Hash, id, m.Config, m.FirstAt, m.SinceAt, 0, m.Body})
	}
	return t.Upsert("{definitions} (job, hash, definition, config, first_at, since_at, until_at, body)", "job, hash", rows, "definition", "since_at", "until_at", "body")
}

// History returns the definitions that a job has had, the one first that began to govern last, and the cursor of the next page, "" after the last. It
// implements ledger.API.
func (s views) History(ctx context.Context, job string, p wire.Page) (rows []wire.Definition, next string, err error) {
	return page(ctx, s.Store, "history", p.Limit,
		func(t *tx, n int) ([]wire.Definition, error) { return t.historyPage(job, p, n) },
		func(last wire.Definition) string {
			return paging.Cursor("history", strconv.FormatInt(micros(last.Since), 10), last.Hash)
		})
}

// DefinitionID is what the history names a definition by whose hash this is. It implements ledger.API.
func (s views) DefinitionID(ctx context.Context, hash string) (string, error) {
	return get(ctx, s.view, "name of a definition", func(t *tx) (string, error) { return t.definitionID(hash) })
}

// historyPage: index definitions_since, in its order.
func (t *tx) historyPage(job string, p wire.Page, n int) ([]wire.Definition, error) {
	after, err := readCursor(p.Cursor, "history", 2)
	if err != nil {
		return nil, err
	}
	q := table[definitionModel](t).Table("{definitions} {walk}{definitions}_since{walked}").Where("job = ?", job)
	if after != nil {
		since, err := strconv.ParseInt(after[0], 10, 64)
		if err != nil {
			return nil, notOfList(p.Cursor)
		}
		q = q.Where("since_at <= ?", since).Where("NOT (since_at = ? AND definition >= ?)", since, after[1])
	}
	return list(rowsOf(q.Order("since_at DESC, definition DESC").Limit(n)), (*definitionModel).definition)
}
