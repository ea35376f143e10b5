package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/client"
)

func newAuditCommand(a *app) *cobra.Command {
	return group("audit", "Show who changed what", newListCommand(a, listing[wire.AuditEntry]{
		short:   "List who changed what through the API, or tried to, the latest first",
		heading: "AT(UTC) WHO ROLE FROM ACTION OBJECT STATUS TASK TASKS REQUESTS",
		fetch:   (*client.Client).Audit,
		row: func(e wire.AuditEntry) []string {
			return []string{utc(e.At), e.Who, e.Role, e.Remote, e.Action, objectOf(e), fmt.Sprint(e.Status), e.TaskID, number(e.Tasks), number(max(e.Count, 1))}
		},
		latest: true,
	}))
}

// objectOf names what the entry is about.
func objectOf(e wire.AuditEntry) string {
	if e.Object == "" && e.Count > 1 {
		return "(several)"
	}
	return e.Object
}
