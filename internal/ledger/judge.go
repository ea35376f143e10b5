package ledger

import "time"

// Judge is asked what time to act by, given the database's inside the transaction. It may return ErrClock:
// then nothing is done that time decides.
type Judge = func(database time.Time) (time.Time, error)
