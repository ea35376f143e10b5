package judge

import (
	"bufio"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// dirty is what the log of a replica must not have.
var dirty = regexp.MustCompile(`^(panic: |fatal error: |WARNING: DATA RACE|goroutine \d+ \[|SIG[A-Z]+: )`)

// clean is I12: no log of a replica has a panic, a data race or a dump of goroutines; no replica ends without a
// signal; no call is answered with status 500; and descriptors, keys, nodes, processes and files are as many as
// before.
//
// No excuses.
func (t *trial) clean() {
	for _, l := range t.h.Leftovers {
		if more := l.After - l.Before; more > l.Allowed {
			t.violate(Clean, l.What, time.Time{}, "%d before and %d after, and %d more are allowed", l.Before, l.After, l.Allowed)
		}
	}
	seen := map[string]bool{}
	for _, p := range slices.Concat(t.h.Processes, t.twins) {
		if p.How == "ended" && !p.Ready.IsZero() {
			t.violate(Clean, p.Replica, p.Ended, "ended by itself with exit code %d, log %s", p.Exit, p.Log)
		}
		if p.Log != "" && t.run.Directory != "" && !seen[p.Log] {
			seen[p.Log] = true
			t.log(p.Log)
		}
	}
	wrong := map[string]bool{}
	for _, a := range t.h.Asks {
		if a.Status == http.StatusInternalServerError && !wrong[a.What] {
			wrong[a.What] = true
			t.violate(Clean, a.Replica, a.Called, "answered 500 to %s of %q: %s", a.What, a.Target, a.Error)
		}
	}
}

// log reports the first forbidden line of a log.
func (t *trial) log(name string) {
	f, err := os.Open(filepath.Join(t.run.Directory, history.LogsDir, filepath.Base(name)))
	if err != nil {
		t.violate(Clean, name, time.Time{}, "%v", err)
		return
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	n := 1
	for ; lines.Scan(); n++ {
		if dirty.Match(lines.Bytes()) {
			t.violate(Clean, name, time.Time{}, "line %d: %s", n, lines.Text())
			return
		}
	}
	if err := lines.Err(); err != nil {
		t.violate(Clean, name, time.Time{}, "line %d: %v", n, err)
	}
}
