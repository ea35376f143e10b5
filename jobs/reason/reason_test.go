package reason

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// published are all codes. People and programs compare with them: one that is here never changes and never goes, and a new one is added.
const published = `
	backfill backoff before_job before_ledger behind_others by_hand calendar cancel_requested cancelled cancelled_by_handler catch_up_latest
	catch_up_limit catch_up_none catch_up_window claim_lost clock_apart decided_late drained due ended error exit_code expired finish_late forced
	job_removed late lock_key lock_lost lock_service_down lock_wait lost_limit lost_may_run max_running memory_limit no_further no_handler
	no_live_replica no_pool no_replica no_room no_row no_worker not_a_due_time not_due not_retried on_demand order_changed ordered other_config
	other_decider other_definition outage outcome_unknown panic paused payload_refused pool_paused quarantined queue_full rate ready record_refused
	replaced replica_died replica_silent resumed retry running schedule_changed session_expired skip_next slot_taken snoozed start_late started_late store_slow
	succeeded suspended timeout undecided waits_for_key waits_for_kind waits_for_lock waits_for_slot was_paused workers_busy
`

// Each code is a word that fits its column, and no two are the same.
func TestCodes(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "reason.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var declared []Code
	ast.Inspect(file, func(n ast.Node) bool {
		if c, is := n.(*ast.ValueSpec); is {
			text, err := strconv.Unquote(c.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			declared = append(declared, Code(text))
		}
		return true
	})
	for _, c := range declared {
		if !regexp.MustCompile(`^[a-z_]{3,32}$`).MatchString(string(c)) {
			t.Errorf("%q is no code", c)
		}
	}
	slices.Sort(declared)
	var all []Code
	for _, word := range strings.Fields(published) {
		all = append(all, Code(word))
	}
	if diff := cmp.Diff(all, declared); diff != "" {
		t.Errorf("the codes are others (-published +declared):\n%s", diff)
	}
	if n := len(declared); len(slices.Compact(declared)) != n {
		t.Error("two are the same")
	}
}
