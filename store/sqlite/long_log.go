package sqlite

import (
	"fmt"
	"os"

	"github.com/lockstep-scheduler/lockstep/internal/sqlitefile"
)

// longLog is how large a write-ahead log may be, in bytes, before it is reported. Views wait from sqlitefile.MostLog on, so that
// only readers that do not wait can be the cause.
const longLog = 4 * sqlitefile.MostLog

// LongLog reports that the write-ahead log of a SQLite file has grown far beyond this program's bound, and what to do: "" if it
// has not, or does not exist.
func LongLog(path string) string {
	log := sqlitefile.LogOf(path)
	info, err := os.Stat(log)
	if err != nil || info.Size() < longLog {
		return ""
	}
	return fmt.Sprintf("%s has %d MiB: another program has been reading the database for long, such as a backup or an open shell, and keeps the log from beginning "+
		"again; end it before the disk is full", log, info.Size()>>20)
}
