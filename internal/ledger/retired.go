package ledger

// Reasons of due times and tasks that a new configuration left behind.
const (
	ReasonEdited  = "the schedule was changed before this was decided"
	ReasonRemoved = "the job was removed before this was decided"
	ReasonRetired = "the job was removed from the configuration"
)
