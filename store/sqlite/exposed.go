package sqlite

import (
	"strings"

	"github.com/lockstep-scheduler/lockstep/internal/sqlitefile"
	"github.com/lockstep-scheduler/lockstep/internal/trustedfile"
)

// Exposed returns what users beside root and the owner may do with a SQLite file, its log, the log's index and its -turn file, as
// far as these exist: "" if nothing. A user that can write one of them can make jobs run; remedy is what to do. An owner that is
// neither root nor the user, a number as of [os.Geteuid], can write; a negative user means any owner. SQLite gives the files that
// it makes the mode of the database. ACLs are read on Linux only; on Windows it returns "".
func Exposed(path string, user int) (problem, remedy string, write bool) {
	log := sqlitefile.LogOf(path)
	var problems, names []string
	for _, name := range []string{path, log, strings.TrimSuffix(log, "-wal") + "-shm", path + "-turn"} {
		if problem, change := trustedfile.Others(name, user); problem != "" {
			problems, names = append(problems, name+" "+problem), append(names, name)
			write = write || change
		}
	}
	if problems == nil {
		return "", "", false
	}
	return strings.Join(problems, "; "), "chmod 600 " + strings.Join(names, " ") + ", and see that the user of the replicas owns them", write
}
