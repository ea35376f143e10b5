package sqllock

import (
	"database/sql"
	"path/filepath"
	"sync"
	"testing"
)

// A connection may be dropped, by several at once, while others begin to use it.
func TestDropWhileInUse(t *testing.T) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "lock.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	c := &session{DB: dialects[SQLite].open(db, "")}
	for range 3000 {
		p, err := c.connect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() { _, _ = p.ask(t.Context()) })
			all.Go(func() { _, _ = p.ExecContext(t.Context(), "SELECT 1") })
			all.Go(p.drop)
		}
		all.Wait()
		if gone, err := p.ask(t.Context()); !gone || err == nil {
			t.Fatal("a connection that was dropped answers")
		}
	}
}
