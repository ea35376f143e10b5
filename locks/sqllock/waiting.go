package sqllock

import "github.com/lockstep-scheduler/lockstep/locks/driver"

// waiting is the keys for which a session has places. Guarded by the session's mu, so a call looks at one key, however many there
// are. The zero waiting has none.
type waiting struct {
	keys      map[string]*awaited
	far, soon int // how many keys have holders elsewhere, and of these, in whose queues the session is the next one
}

// awaited is what a session knows of a key for which it has places.
type awaited struct {
	places map[string]int64 // their numbers, by acquisition
	near   bool             // all holders are sessions of this process
	next   bool             // no place is before the first of these
	last   driver.Token     // of the holders
}

// add enters a place behind a holder. That may be older than what is known of the key: then it does not make the key near.
func (w *waiting) add(p driver.Place, number int64, near bool, holder driver.Token) {
	k := w.keys[p.Key]
	if k == nil {
		k = &awaited{places: map[string]int64{}, near: true}
		if w.keys == nil {
			w.keys = map[string]*awaited{}
		}
		w.keys[p.Key] = k
	}
	k.places[p.Acquisition] = number
	w.set(k, near && (k.near || holder >= k.last), true)
	k.last = max(k.last, holder)
}

// remove takes a place out, if it is there.
func (w *waiting) remove(p driver.Place) {
	k := w.keys[p.Key]
	if k == nil {
		return
	}
	delete(k.places, p.Acquisition)
	if len(k.places) == 0 {
		w.set(k, true, k.next)
		delete(w.keys, p.Key)
	}
}

func (w *waiting) has(p driver.Place) bool {
	k := w.keys[p.Key]
	if k == nil {
		return false
	}
	_, has := k.places[p.Acquisition]
	return has
}

// heldBy notes who has a key, and reports whether that is new. last is 0 if it is not known.
func (w *waiting) heldBy(key string, near bool, last driver.Token) (moved bool) {
	k := w.keys[key]
	if k == nil {
		return false
	}
	moved = k.near != near || last > 0 && k.last != last
	if last > 0 {
		k.last = last
	}
	w.set(k, near, k.next)
	return moved
}

// first notes the number of the first place of a key's queue, and reports whether that makes the session the next one, or ends that.
func (w *waiting) first(key string, number int64) (moved bool) {
	k := w.keys[key]
	if k == nil {
		return false
	}
	next := false
	for _, of := range k.places {
		next = next || of <= number
	}
	moved = k.next != next
	w.set(k, k.near, next)
	return moved
}

// set changes what is known of a key, and what is counted of it.
func (w *waiting) set(k *awaited, near, next bool) {
	w.count(k, -1)
	k.near, k.next = near, next
	w.count(k, 1)
}

func (w *waiting) count(k *awaited, n int) {
	if !k.near {
		w.far += n
		if k.next {
			w.soon += n
		}
	}
}
