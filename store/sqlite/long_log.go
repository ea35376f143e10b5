package sqlite

import (
	"fmt"
	"os"

	"github.com/lockstep-scheduler/lockstep/internal/sqlitefile"
)

// longLog is how large a write-ahead log may be, in bytes, before people are told: views wait for it from sqlitefile.MostLog on, so that only
// readers that do not wait can be why.
const longLog = 4 * sqlitefile.MostLog

// LongLog says that the write-ahead log of a SQLite file has grown far beyond what this program lets it, and what to do: "" if it
// has not, or is not there.
func LongLog(path string) string {
	log := sqlitefile.LogOf(path)
	info, err := os.Stat(log)
	if err != nil || info.Size() < longLog {
		return ""
	}
	return fmt.Sprintf("%s has %d MiB: another program has been reading the database for long, such as a backup or an open shell, and keeps the log from beginning "+
		"again; end it before the disk is full", log, info.Size()>>20)
}
