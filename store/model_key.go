package store

import "github.com/lockstep-scheduler/lockstep/internal/ledger"

// keyModel is a row of {keys}.
type keyModel struct {
	Pool         string `gorm:"primaryKey"`
	TaskKey      string `gorm:"primaryKey"`
	BucketFullAt ledger.Bucket
	LookAt       int64
	Looks        int
	Pass         int64
}

// keyWaitModel is a row of {key_waits}: a task that waits for its key, or that has a place among those with its key.
type keyWaitModel struct {
	Pool      string `gorm:"primaryKey"`
	TaskKey   string `gorm:"primaryKey"`
	Place     int64  `gorm:"primaryKey;autoIncrement:false"`
	RankOrder int    `gorm:"primaryKey;autoIncrement:false"`
	RunAt     int64  `gorm:"primaryKey;autoIncrement:false"`
	TaskID    string `gorm:"primaryKey"`
	Kind      string
}

// sequenceModel is a row of {sequences}.
type sequenceModel struct {
	Pool      string `gorm:"primaryKey"`
	TaskKey   string `gorm:"primaryKey"`
	LastPlace int64
}
