package sqlkit

import (
	"context"
	"database/sql"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// DB is a pool of connections and how to speak on them. Its fields are set before it is used.
type DB struct {
	Pool    *sql.DB
	Dialect Dialect
	Prefix  string        // of every table
	Timeout time.Duration // of a call whose context has no deadline within a minute; 0: none
	// Reconnect says that what met a lost connection is repeated: all that runs may run twice, or is in a transaction.
	Reconnect bool
	// Refused makes the error of one that no connection was had for; nil leaves it.
	Refused func(ctx context.Context, err error) error
	// Holds is asked after each use of a connection; its error takes the place of what came of that. Nil is never an error.
	Holds func() error

	words *strings.Replacer
	texts *texts
	// line has a place for each connection of the pool; nil: their number has no bound. Who waits for one waits here, and gets it in the order of coming:
	// database/sql gives it to any of those who wait, and a writer of a busy SQLite file waited for many transactions that had begun to wait after it.
	line chan struct{}
}

// texts are statements that were asked for before, as the database gets them: each is made once.
type texts struct {
	plain  sync.Map // by the statement
	count  atomic.Int32
	shapes sync.Map // by the statement; see shape
	forms  sync.Map // by form
}

// Of plain statements only so many are kept, and no long ones: some are made for one call.
const (
	keptPlain = 1000
	plainText = 4 << 10
)

// kept is what made makes of a key, made once.
func kept[K comparable, V any](all *sync.Map, key K, made func(K) (V, error)) (V, error) {
	if v, is := all.Load(key); is {
		return v.(V), nil
	}
	v, err := made(key)
	if err == nil {
		all.Store(key, v)
	}
	return v, err
}

// New returns a DB whose statements write tables in braces, and the pairs of words, before those of the dialect.
func New(pool *sql.DB, d Dialect, prefix string, tables []string, words ...string) *DB {
	for _, table := range tables {
		words = append(words, "{"+table+"}", prefix+table)
	}
	words = append(words, d.Words()...)
	db := &DB{Pool: pool, Dialect: d, Prefix: prefix, words: strings.NewReplacer(words...), texts: &texts{}}
	if n := pool.Stats().MaxOpenConnections; n > 0 {
		db.line = make(chan struct{}, n)
	}
	return db
}

// On is the same DB on other connections.
func (db *DB) On(pool *sql.DB) *DB {
	other := *db
	if other.Pool = pool; pool != db.Pool {
		other.line = nil
	}
	return &other
}

// Text is a statement as the database gets it.
func (db *DB) Text(statement string) string {
	if text, is := db.texts.plain.Load(statement); is {
		return text.(string)
	}
	text := db.words.Replace(statement)
	// Load first: the count does not go on to its end and begin again.
	if len(text) <= plainText && db.texts.count.Load() < keptPlain && db.texts.count.Add(1) <= keptPlain {
		db.texts.plain.Store(statement, text)
	}
	return text
}

// With runs statements on conn, whose transaction, if any, is ended elsewhere.
func (db *DB) With(ctx context.Context, conn Conn) *Tx { return &Tx{Ctx: ctx, DB: db, Conn: conn} }
