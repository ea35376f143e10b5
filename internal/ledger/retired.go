package ledger

// Reasons of due times and tasks that a new configuration left behind.
const (
	ReasonEdited  = "the schedule was changed before this was decided, and what else was due until then"
	ReasonRemoved = "the job was removed before this was decided, and what else was due until then"
	ReasonRetired = "the job was removed from the configuration"
)
