package store

import (
	"context"
	"maps"
	"slices"

	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
)

// written are the tables that replicas write, each with a column of its own.
var written = map[string]string{
	"meta": "name", "sessions": "id", "pools": "name", "jobs": "name", "triggers": "job", "tasks": "id", "done": "id", "attempts": "task_id",
	"outputs": "task_id", "idempotency": "pool", "events": "id", "standings": "kind", "audit": "id", "kinds": "pool", "lock_waits": "lock_key",
	"keys": "pool", "key_waits": "pool", "sequences": "pool", "unique_tasks": "pool",
	"results": "task_id", "chunks": "task_id", "definitions": "job", "configurations": "hash", "pause": "id", "expectations": "job", "orders": "id",
}

// CheckRights fails when the account may not do what a replica does, and with migrate what Migrate
// does. It changes nothing. A SQLite file that this package opened has no accounts: a small file is written beside it, and
// removed, to see that there is room.
func (s admin) CheckRights(ctx context.Context, migrate bool) error {
	if s.db == nil {
		return &opError{"check rights", errNotMade}
	}
	if s.db.Dialect.Local() {
		if s.file == nil {
			return nil
		}
		return s.file.Room()
	}
	var statements []string
	if migrate { // on a table that does not exist: the answer differs if the right is missing
		statements = append(statements,
			`CREATE TABLE `+s.db.Prefix+`rights_new LIKE `+s.db.Prefix+`rights_none`,
			`ALTER TABLE `+s.db.Prefix+`rights_none ADD COLUMN rights INT`)
	}
	for _, name := range slices.Sorted(maps.Keys(written)) {
		table, column := "{"+name+"}", written[name]
		statements = append(statements,
			`INSERT INTO `+table+` SELECT * FROM `+table+` WHERE 1 = 0`,
			`UPDATE `+table+` SET `+column+` = `+column+` WHERE 1 = 0`,
			`DELETE FROM `+table+` WHERE 1 = 0`)
	}
	return s.autocommit(ctx, "check rights", func(t *tx) error {
		for _, statement := range statements {
			if _, err := t.Exec(statement); err != nil && s.db.Dialect.Answer(err) != sqlkit.AnswerNoTable {
				return err
			}
		}
		return nil
	})
}
