package sqllock

import "context"

// bumpSQLite runs the UPDATE of mint and returns the new highest token in the same statement.
func (c *calls) bumpSQLite(ctx context.Context, on execer, update string, n int) (last int64, err error) {
	rows, err := on.QueryContext(ctx, c.words.replace.Replace(update+` RETURNING token`), n, c.namespace)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	for rows.Next() {
		if err := rows.Scan(&last); err != nil {
			return 0, err
		}
	}
	return last, rows.Err()
}
