package store

// uniqueModel is a row of {unique_tasks}.
type uniqueModel struct {
	Pool        string `gorm:"primaryKey"`
	ValuesHash  string `gorm:"primaryKey"`
	TaskID      string
	UniqueUntil int64
	UniqueWhile string
	Token       int64
	LookAt      int64
}

func (uniqueModel) TableName() string { return "{unique_tasks}" }
