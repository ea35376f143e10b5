package store

// lockWaitModel is a row of {lock_waits}: one key that a task waits for.
type lockWaitModel struct {
	LockKey   string `gorm:"primaryKey"`
	RankOrder int    `gorm:"primaryKey;autoIncrement:false"`
	RunAt     int64  `gorm:"primaryKey;autoIncrement:false"`
	TaskID    string `gorm:"primaryKey"`
	KeyCount  int
	Pool      string
	Work      string
	UntilAt   int64
	SessionID string
}
