package sqllock

import (
	"context"

	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
)

// mintMySQL gets the value that LAST_INSERT_ID(value) leaves in the answer.
func mintMySQL(t *sqlkit.Tx, namespace string, n int) (last int64, err error) {
	result, err := t.Result(`UPDATE {marks} SET token = LAST_INSERT_ID(GREATEST(token, {now}) + ?) WHERE namespace = ?`, n, namespace)
	if err != nil {
		return 0, err
	}
	return result.LastInsertId()
}

func writeMySQL(ctx context.Context, db *sqlkit.DB, once func(t *sqlkit.Tx) error) error {
	return db.Autocommit(ctx, once)
}

// settleMySQL leaves out the isolation level of transactions if that of the handle is the same: it costs a round trip.
func settleMySQL(ctx context.Context, s *leaseSession) error {
	return s.Autocommit(ctx, func(t *sqlkit.Tx) error {
		var name, level string
		_, err := t.One(`SHOW VARIABLES WHERE Variable_name IN ('transaction_isolation', 'tx_isolation')`, nil, &name, &level)
		if err == nil && level == "READ-COMMITTED" {
			s.Dialect, s.committed = sqlkit.MySQL{}, true
		}
		return err
	})
}
