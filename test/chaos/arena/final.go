//go:build linux

package arena

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// exportFinal writes final.json: what is there, and what was swept.
func (a *Arena) exportFinal(ctx context.Context, db *sql.Conn, d dialect, swept map[string][]history.Row) error {
	var f history.Final
	for table, into := range map[string]*[]history.Row{
		"jobs": &f.Jobs, "triggers": &f.Triggers, "tasks": &f.Tasks, "done": &f.Done, "attempts": &f.Attempts, "sessions": &f.Sessions,
	} {
		rows, err := tableRows(ctx, db, d, table)
		if err != nil {
			return err
		}
		*into = append(swept[table], rows...)
	}
	return history.Write(a.Dir, history.FinalFile, f)
}

func tableRows(ctx context.Context, db *sql.Conn, d dialect, table string) (all []history.Row, err error) {
	rows, err := db.QueryContext(ctx, "SELECT "+d.object(table, "t")+" FROM "+prefix+table+" t")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", table, err)
	}
	defer rows.Close()
	for rows.Next() {
		var text []byte
		if err := rows.Scan(&text); err != nil {
			return nil, fmt.Errorf("%s: %w", table, err)
		}
		r, err := rowOf(text)
		if err != nil {
			return nil, err
		}
		all = append(all, *r)
	}
	return all, rows.Err()
}
