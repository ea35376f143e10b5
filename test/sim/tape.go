package sim

import (
	"context"
	"log/slog"
	"strings"
)

// tape is a log that becomes part of the history.
type tape struct {
	w  *world
	id string
}

// said is a record that becomes text on demand.
type said struct{ slog.Record }

func (s said) String() string {
	var b strings.Builder
	b.WriteString(s.Message)
	s.Attrs(func(a slog.Attr) bool {
		b.WriteString(" " + a.String())
		return true
	})
	return b.String()
}

func (t *tape) Enabled(context.Context, slog.Level) bool { return true }

func (t *tape) Handle(_ context.Context, r slog.Record) error {
	t.w.note(t.id, "says: %v", said{r})
	return nil
}

func (t *tape) WithAttrs([]slog.Attr) slog.Handler { return t }

func (t *tape) WithGroup(string) slog.Handler { return t }
