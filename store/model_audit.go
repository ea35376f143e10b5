package store

import "github.com/lockstep-scheduler/lockstep/api/wire"

// auditModel is a row of {audit}.
type auditModel struct {
	ID                                string
	At                                int64
	Who, Role, Remote, Action, Object string
	Status                            int
	TaskID                            string
	Tasks, Repeats                    int
}

func (auditModel) TableName() string { return "{audit}" }

func (m *auditModel) entry() wire.AuditEntry {
	e := wire.AuditEntry{
		ID: m.ID, At: fromMicros(m.At), Who: m.Who, Role: m.Role, Remote: m.Remote, Action: m.Action, Object: m.Object, Status: m.Status,
		TaskID: m.TaskID, Tasks: m.Tasks,
	}
	if m.Repeats > 1 {
		e.Count = m.Repeats
	}
	return e
}
