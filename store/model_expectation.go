package store

// expectationModel is a row of {expectations}: by when a run is to have started, or ended.
type expectationModel struct {
	DueBy int64  `gorm:"primaryKey;autoIncrement:false"`
	Job   string `gorm:"primaryKey"`
	At    int64  `gorm:"primaryKey;autoIncrement:false"`
	Seq   int    `gorm:"primaryKey;autoIncrement:false"`
	What  string `gorm:"primaryKey"`
}

func (m expectationModel) key() []any { return []any{m.DueBy, m.Job, m.At, m.Seq, m.What} }
