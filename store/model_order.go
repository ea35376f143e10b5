package store

import (
	"encoding/json"
	"fmt"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/clip"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/limits"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// orderModel is a row of {orders}.
type orderModel struct {
	ID                         string `gorm:"primaryKey"`
	Job                        string
	Kind                       wire.OrderKind
	State                      wire.OrderState
	ByWhom, Reason             string
	ReasonCode                 reason.Code
	CreatedAt, NextAt, EndedAt int64
	Asked, Progress            []byte
}

var orderColumns = columnsOf(orderModel{})

// order is the row as an order; its error is about JSON that no program has written.
func (m *orderModel) order() (ledger.Order, error) {
	o := ledger.Order{
		ID: m.ID, Job: m.Job, Kind: m.Kind, State: m.State, By: m.ByWhom, Reason: m.Reason, ReasonCode: m.ReasonCode,
		CreatedAt: fromMicros(m.CreatedAt), NextAt: fromMicros(m.NextAt), EndedAt: fromMicros(m.EndedAt),
	}
	err := json.Unmarshal(m.Asked, &o.Asked)
	if err == nil {
		err = json.Unmarshal(m.Progress, &o.Progress)
	}
	if err != nil {
		err = fmt.Errorf("order %s: %w", m.ID, err)
	}
	return o, err
}

// writeOrder is the row of an order, in the order of its columns.
func writeOrder(o ledger.Order) []any {
	asked, _ := json.Marshal(o.Asked) // both always encode
	progress, _ := json.Marshal(o.Progress)
	return []any{
		o.ID, o.Job, string(o.Kind), string(o.State), clip.Text(o.By, limits.By), clip.Text(o.Reason, 512), string(o.ReasonCode),
		micros(o.CreatedAt), micros(o.NextAt), micros(o.EndedAt), asked, progress,
	}
}
