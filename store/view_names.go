package store

import (
	"context"
)

// JobNames returns the names, sorted, of at most limit jobs that begin with prefix and come after
// the name after; those that no live configuration has are among them only with retired.
func (s *Store) JobNames(ctx context.Context, prefix, after string, retired bool, limit int) ([]string, error) {
	w := &where{}
	if prefix != "" { // '~' sorts behind whatever a name may hold
		w.and(`name >= ? AND name < ?`, prefix, prefix+"~")
	}
	if after != "" {
		w.and(`name > ?`, after)
	}
	if !retired {
		w.and(`hash <> ''`)
	}
	var names []string
	err := s.read(ctx, "job names", func(t *tx) (err error) { // primary key, in its order
		names, err = t.ids(`SELECT name FROM {jobs}`+w.text()+` ORDER BY name LIMIT ?`, append(w.args, limit))
		return err
	})
	return names, err
}
