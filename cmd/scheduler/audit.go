package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lockstep-scheduler/lockstep/client"
	"github.com/lockstep-scheduler/lockstep/jobs/ledger"
)

func newAuditCommand(a *app) *cobra.Command {
	return group("audit", "Show who changed what", newListCommand(a, listing[ledger.AuditEntry]{
		short:   "List who changed what through the API, or tried to, the latest first",
		heading: "AT(UTC) WHO ROLE FROM ACTION OBJECT STATUS TASK TASKS REQUESTS",
		fetch:   (*client.Client).Audit,
		row: func(e ledger.AuditEntry) []string {
			return []string{utc(e.At), e.Who, e.Role, e.Remote, e.Action, objectOf(e), fmt.Sprint(e.Status), e.TaskID, number(e.Tasks), number(max(e.Count, 1))}
		},
		latest: true,
	}))
}

// objectOf is what the entry is about.
func objectOf(e ledger.AuditEntry) string {
	if e.Object == "" && e.Count > 1 {
		return "(several)"
	}
	return e.Object
}
