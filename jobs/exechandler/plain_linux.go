package exechandler

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"github.com/lockstep-scheduler/lockstep/internal/process"
)

// plainLog logs a line of text for people: the message, and the values that it comes with.
type plainLog struct{ w io.Writer }

func (plainLog) Enabled(context.Context, slog.Level) bool { return true }

func (p plainLog) Handle(_ context.Context, r slog.Record) error {
	line := process.Warden + ": " + r.Message
	r.Attrs(func(a slog.Attr) bool {
		line += fmt.Sprintf(", %s: %v", a.Key, a.Value)
		return true
	})
	_, err := fmt.Fprintln(p.w, line)
	return err
}

func (p plainLog) WithAttrs([]slog.Attr) slog.Handler { return p }
func (p plainLog) WithGroup(string) slog.Handler      { return p }
