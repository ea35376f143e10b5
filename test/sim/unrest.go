package sim

import (
	"regexp"
	"runtime"
	"strings"

	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// noteUnrest notes what a world shows that does not come to rest: open tasks, what waits for locks in the store, who has locks at the
// lock service, and what the goroutines of the replicas do.
func (w *world) noteUnrest() {
	w.db.Look(func(rows memstore.Rows) {
		for _, r := range rows.Tasks {
			w.note("JUDGE", "open: %+v", r)
		}
	})
	waits, _ := w.db.Dump("lock_waits")
	for _, r := range waits {
		w.note("JUDGE", "waits for a lock: %v", r)
	}
	for _, info := range w.listLocks("") {
		w.note("JUDGE", "at the lock service: %+v", info)
	}
	for _, stack := range worldStacks() {
		w.note("JUDGE", "goroutine %s", stack)
	}
}

var bubble = regexp.MustCompile(`synctest bubble \d+`)

// worldStacks are the stacks of the goroutines of this world that work on tasks or locks.
func worldStacks() (all []string) {
	buf := make([]byte, 32<<20)
	mine := bubble.FindString(string(buf[:runtime.Stack(buf, false)]))
	for stack := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		head, _, _ := strings.Cut(stack, "\n")
		if mine != "" && strings.Contains(head, mine+"]") && (strings.Contains(stack, "/internal/work.") || strings.Contains(stack, "/locks.")) {
			all = append(all, stack)
		}
	}
	return all
}
