package memstore

// Mistake is a rule that the transactions of a database break. What stands between the database and its callers could not.
type Mistake string

// The mistakes.
const (
	KeepsRetired   Mistake = "tasks of removed jobs stay"
	CancelsRemoved Mistake = "tasks of removed pools are cancelled, too"
	ClaimsRemoved  Mistake = "tasks of removed pools are claimed by who has the pool"
	AnyGoverns     Mistake = "each configuration governs"
	CancelsNoOrder Mistake = "an order that is cancelled goes on"
	KeepsOrders    Mistake = "orders of removed jobs stay"
	LosesOrders    Mistake = "open orders are gone when a replica joins"
	CountsPaused   Mistake = "ends in paused pools count for the next pause"
	PausesUntold   Mistake = "nobody is told of a pause by failures"
	ExpiringLast   Mistake = "tasks that expire are claimed after the others"
)

// removed reports whether no configuration has a pool.
func (t *tx) removed(pool Pool) bool { return pool.Hash == "" && !t.makes(ClaimsRemoved) }

func (t *tx) makes(m Mistake) bool { return t.s.Database.Mistake == m }

// loseOrders removes the orders that are open.
func (t *tx) loseOrders() {
	for id, o := range t.orders.rows {
		if o.Next > 0 {
			remove(t, &t.orders, id)
		}
	}
}
