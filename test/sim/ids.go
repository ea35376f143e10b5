package sim

import "github.com/google/uuid"

// newID mints an id by the process's wall clock.
func (e *edge) newID() (string, error) {
	id, err := uuid.NewV7()
	return e.shift(id.String()), err
}

// shift makes an id what the process's wall clock would have made it.
func (e *edge) shift(id string) string {
	off := e.w.wall(e.index)
	u, err := uuid.Parse(id)
	if off == 0 || err != nil {
		return id
	}
	ms := int64(u[0])<<40 | int64(u[1])<<32 | int64(u[2])<<24 | int64(u[3])<<16 | int64(u[4])<<8 | int64(u[5])
	ms += off.Milliseconds()
	for i := range 6 {
		u[i] = byte(ms >> (8 * (5 - i)))
	}
	return u.String()
}
